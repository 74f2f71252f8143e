import { basename, dirname } from "node:path";
import { LeftOut, loadTexts } from "../data/index.ts";
import { trainBpe } from "../text/index.ts";
import { choice, integer, number, path, strings } from "../util/options.ts";
import { command } from "./command.ts";

/** `serac bpe train`: a SentencePiece model with icefall's settings, from the texts of manifests. */
export const bpeTrain = command({
  name: "bpe train",
  summary: "Train a SentencePiece model on the texts of a manifest",
  description:
    "Settings are icefall's: unigram, <blk> is 0, <sos/eos> 1, <unk> 2.\nOf an utterance and its copies at other speeds, as icefall's manifests of cuts hold them, the text is counted once. Audio is not read.",
  examples: [
    "serac bpe train --manifest train.jsonl --vocab-size 500 --out data/lang_bpe_500/bpe.model",
    "serac bpe train --manifest data/fbank/librispeech_cuts_train-clean-100.jsonl.gz",
  ],
  options: {
    manifest: strings({ required: true, unit: "files", help: "NeMo manifests, or manifests of lhotse's cuts" }),
    vocabSize: integer({ default: 500, min: 4, help: "number of pieces, with the three special ones" }),
    out: path({ default: "data/lang_bpe_500/bpe.model", help: "file to write" }),
    modelType: choice(["unigram", "bpe", "char"], { default: "unigram", help: "kind of model" }),
    characterCoverage: number({ default: 1, min: 0.5, max: 1, help: "share of characters that get a piece" }),
  },
  async run({ manifest, vocabSize, out: file, modelType, characterCoverage }, out) {
    const leftOut = new LeftOut();
    const { texts: all, copies } = await loadTexts(manifest, { onError: (error) => leftOut.add(`unusable lines: ${error.code}`, error.at ?? "") });
    for (const line of leftOut.lines()) out.say(`left out: ${line}`);
    if (copies > 0) out.say(`${copies} cuts are copies of others at another speed: their texts are counted once`);
    const texts = all.filter((text) => text.trim() !== "");
    await trainBpe({ input: texts, outPath: file, vocabSize, type: modelType, characterCoverage });
    if (out.json) out.print(JSON.stringify({ model: file, vocabSize, texts: texts.length, copies }));
    else out.print(file);
    const first = manifest[0] as string;
    const data = /^librispeech_cuts_/.test(basename(first)) ? `--manifest-dir ${dirname(first)}` : `--train-manifest ${manifest.join(",")}`;
    out.next(`serac train ${data} --bpe-model ${file} --exp-dir exp`);
    return 0;
  },
});
