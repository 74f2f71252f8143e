import { basename, join } from "node:path";
import { type Cut, LeftOut, loadManifest, loadTarredCuts } from "../data/index.ts";
import { makeWritableFolder, writeFileAtomic } from "../formats/atomic.ts";
import { errorRate, formatErrorLine, formatErrors, formatRecogs, formatSummary, type ScoredUtterance, splitWords } from "../text/index.ts";
import { ConfigError, ManifestError, type SeracError } from "../util/errors.ts";
import { integer, number, path, strings } from "../util/options.ts";
import { command } from "./command.ts";
import { loadRecognizer, recognizerOptions, streamingOptions, streamingRecognizer } from "./model.ts";

/** The manifests by the names that their result files get. @throws ConfigError CONFIG_BAD_VALUE where two would write to the same files */
function setNames(manifests: readonly string[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const manifest of manifests) {
    const name = basename(manifest).replace(/\.jsonl?(\.gz)?$/, "");
    const other = names.get(name);
    if (other !== undefined)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        message: `--manifest names ${other} and ${manifest}, whose results would both be written to recogs-${name}-...txt`,
        fix: "decode them one at a time, each with a --res-dir of its own",
      });
    names.set(name, manifest);
  }
  return names;
}

/** `serac decode`: recognises manifests, scores them, writes icefall's files. */
export const decode = command({
  name: "decode",
  summary: "Recognise a manifest and score it: recogs, errs and wer-summary files",
  description:
    "The model's shape and the tokenizer come from the checkpoint. Files are written to EXP-DIR/METHOD (with --streaming to EXP-DIR/streaming/METHOD), in icefall's formats. Utterances that cannot be used are left out and counted; a manifest of which none can be used is an error. Where no line has a text, the word error rate is shown as -.",
  examples: [
    "serac decode --exp-dir exp --epoch 30 --avg 9 --manifest test.jsonl",
    "serac decode --exp-dir exp --epoch 30 --manifest test.jsonl --streaming --chunk-size 32 --left-context-frames 256",
    "serac decode --checkpoint exp/epoch-30.pt --manifest test.jsonl --decoding-method ctc-greedy-search --json",
  ],
  options: {
    manifest: strings({ required: true, unit: "files", help: "NeMo manifests to recognise, or manifests of lhotse's cuts" }),
    tarredAudioFilepaths: strings({ unit: "tars", help: "tars that hold the audio of --manifest: audio__OP_0..63_CL_.tar" }),
    ...recognizerOptions,
    ...streamingOptions,
    numDecodeStreams: integer({ default: 2000, min: 1, help: "with --streaming: streams that are decoded together" }),
    maxDuration: number({ default: 200, min: 0.1, unit: "seconds", help: "padded audio in a batch" }),
    resDir: path({ help: "folder of the results; EXP-DIR/METHOD where not given" }),
  },
  async run(options, out, given) {
    const names = setNames(options.manifest);
    const { recognizer, suffix } = loadRecognizer(options, given);
    const { method } = recognizer;
    const streams = options.streaming ? streamingRecognizer(recognizer, options) : undefined;
    const resDir = options.resDir ?? join(options.checkpoint ? "." : options.expDir, ...(streams ? ["streaming"] : []), method);
    makeWritableFolder(resDir);
    const results: Record<string, unknown>[] = [];
    for (const [name, manifest] of names) {
      const leftOut = new LeftOut();
      const cuts = options.tarredAudioFilepaths
        ? await loadTarredCuts({ manifest, tars: options.tarredAudioFilepaths }, { leftOut, say: (line) => out.say(line), needDuration: false })
        : await loadManifest(manifest, { needDuration: false, onError: (error) => leftOut.add(`unusable lines: ${error.code}`, error.at ?? "") });
      const progress = out.progress(cuts.length, "utterances", name);
      const scored: ScoredUtterance[] = [];
      const started = performance.now();
      let audio = 0;
      const onError = (error: SeracError, cut: Cut) => leftOut.add(`unusable audio: ${error.code}`, cut.origin);
      const { numDecodeStreams, maxDuration } = options;
      const transcripts = streams ? streams.transcribeCuts(cuts, { numDecodeStreams, onError }) : recognizer.transcribeCuts(cuts, { maxDuration, onError });
      for await (const { cut, transcript } of transcripts) {
        scored.push({ id: cut.id, ref: splitWords(cut.text), hyp: splitWords(transcript.text) });
        audio += transcript.duration;
        progress.update(scored.length);
      }
      progress.finish();
      const seconds = (performance.now() - started) / 1000;
      if (scored.length === 0)
        throw new ManifestError("SOURCE_EMPTY", {
          at: manifest,
          message: `no utterance could be recognised: ${leftOut.lines().join("; ") || "the manifest has no line"}`,
          fix: "run serac manifest check, which names each line and file that cannot be used",
        });
      for (const line of leftOut.lines()) out.say(`left out: ${line}`);
      const { text, percent, ...counts } = formatErrors(scored);
      const file = (kind: string): string => join(resDir, `${kind}-${name}-${suffix}.txt`);
      writeFileAtomic(file("recogs"), formatRecogs(scored));
      writeFileAtomic(file("errs"), text);
      writeFileAtomic(file("wer-summary"), formatSummary({ [method]: percent }));
      const withoutReference = scored.filter(({ ref }) => ref.length === 0).length;
      if (counts.words === 0) out.say(`${name}: no line has a reference text, so there is no word error rate; what was recognised is in ${file("recogs")}`);
      else if (withoutReference > 0) out.say(`${name}: ${withoutReference} utterances have no reference text; words recognised in them count as insertions`);
      results.push({
        set: name,
        method,
        utterances: scored.length,
        leftOut: leftOut.total,
        withoutReference,
        ...counts,
        wer: errorRate(counts) ?? null,
        audioSeconds: audio,
        seconds,
        recogs: file("recogs"),
        errs: file("errs"),
        werSummary: file("wer-summary"),
      });
      if (!out.json) {
        out.print(formatErrorLine(`${name}-${method}`, counts));
        out.say(`${scored.length} utterances, ${(audio / seconds).toFixed(0)} s of audio/s; wrote ${file("recogs")}, ${file("errs")}`);
      }
    }
    recognizer.dispose();
    if (out.json) out.print(JSON.stringify(results.length === 1 ? results[0] : results));
    return 0;
  },
});
