import { mkdirSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { type Cut, LeftOut, loadManifest } from "../data/index.ts";
import { Recognizer } from "../decode/index.ts";
import { writeFileAtomic } from "../formats/index.ts";
import { averagedCheckpoint, loadCheckpoint } from "../models/index.ts";
import { type ScoredUtterance, errorRate, formatErrorLine, formatErrors, formatRecogs, formatSummary, splitWords } from "../text/index.ts";
import { setThreads } from "../torch/index.ts";
import { CheckpointError } from "../util/errors.ts";
import { boolean, choice, integer, number, path, strings } from "../util/options.ts";
import { command } from "./command.ts";

/** The newest epoch of an experiment. */
function lastEpoch(expDir: string): number {
  let names: string[] = [];
  try {
    names = readdirSync(expDir);
  } catch {
    // reported below
  }
  const epochs = names.map((name) => Number(/^epoch-(\d+)\.safetensors$/.exec(name)?.[1] ?? 0));
  const last = Math.max(0, ...epochs);
  if (last === 0) throw new CheckpointError("CHECKPOINT_MISSING", { at: expDir, message: "no epoch-N.safetensors file", fix: "train first (serac train), or give --checkpoint" });
  return last;
}

/** `serac decode`: recognises manifests, scores them, writes icefall's files. */
export const decode = command({
  name: "decode",
  summary: "Recognise a manifest and score it: recogs, errs and wer-summary files",
  description: "The model's shape and the tokenizer come from the checkpoint. Files are written to EXP-DIR/METHOD, in icefall's formats.",
  examples: [
    "serac decode --exp-dir exp --epoch 30 --avg 9 --manifest test.jsonl",
    "serac decode --checkpoint exp/epoch-30.safetensors --manifest test.jsonl --decoding-method ctc-greedy-search --json",
  ],
  options: {
    manifest: strings({ required: true, unit: "files", help: "NeMo manifests to recognise" }),
    expDir: path({ default: "zipformer/exp", help: "folder of checkpoints; results go below it" }),
    epoch: integer({ default: 0, min: 0, help: "epoch to decode with; 0 is the last" }),
    avg: integer({ default: 1, min: 1, help: "epochs to average" }),
    useAveragedModel: boolean({ default: true, help: "average over all updates of these epochs, not over the epochs' ends" }),
    checkpoint: path({ help: "one checkpoint file instead of --exp-dir, --epoch and --avg" }),
    decodingMethod: choice(["greedy_search", "ctc-greedy-search"], { help: "search; the transducer's where there is one" }),
    maxDuration: number({ default: 200, min: 0.1, unit: "seconds", help: "padded audio in a batch" }),
    resDir: path({ help: "folder of the results; EXP-DIR/METHOD where not given" }),
    threads: integer({ default: 0, min: 0, help: "threads of operators; 0 leaves libtorch's choice" }),
  },
  async run(options, out) {
    if (options.threads > 0) setThreads(options.threads);
    const epoch = options.checkpoint ? 0 : options.epoch || lastEpoch(options.expDir);
    const averaged = options.useAveragedModel && (options.avg > 1 || epoch - options.avg >= 1);
    const checkpoint = options.checkpoint ? loadCheckpoint(options.checkpoint) : averagedCheckpoint(options.expDir, { epoch, avg: options.avg, useAveragedModel: averaged });
    const recognizer = Recognizer.fromCheckpoint(checkpoint, options.decodingMethod ? { method: options.decodingMethod } : {});
    const { method } = recognizer;
    const suffix = options.checkpoint ? basename(options.checkpoint).replace(/\.safetensors$/, "") : `epoch-${epoch}_avg-${options.avg}${averaged ? "_use-averaged-model" : ""}`;
    const resDir = options.resDir ?? join(options.checkpoint ? "." : options.expDir, method);
    mkdirSync(resDir, { recursive: true });
    const results: Record<string, unknown>[] = [];
    for (const manifest of options.manifest) {
      const name = basename(manifest).replace(/\.jsonl?(\.gz)?$/, "");
      const leftOut = new LeftOut();
      const cuts = await loadManifest(manifest, { needDuration: false, onError: (error) => leftOut.add(`unusable lines: ${error.code}`, error.at ?? "") });
      const progress = out.progress(cuts.length, "utterances", name);
      const scored: ScoredUtterance[] = [];
      const started = performance.now();
      let audio = 0;
      for await (const { cut, transcript } of recognizer.transcribeCuts(cuts, { maxDuration: options.maxDuration, onError: (error, cut: Cut) => leftOut.add(`unusable audio: ${error.code}`, cut.origin) })) {
        scored.push({ id: cut.id, ref: splitWords(cut.text), hyp: splitWords(transcript.text) });
        audio += transcript.duration;
        progress.update(scored.length);
      }
      progress.finish();
      const seconds = (performance.now() - started) / 1000;
      const { text, percent, ...counts } = formatErrors(scored);
      const file = (kind: string): string => join(resDir, `${kind}-${name}-${suffix}.txt`);
      writeFileAtomic(file("recogs"), formatRecogs(scored));
      writeFileAtomic(file("errs"), text);
      writeFileAtomic(file("wer-summary"), formatSummary({ [method]: percent }));
      for (const line of leftOut.lines()) out.say(`left out: ${line}`);
      results.push({ set: name, method, utterances: scored.length, leftOut: leftOut.total, ...counts, wer: errorRate(counts), audioSeconds: audio, seconds, recogs: file("recogs"), errs: file("errs"), werSummary: file("wer-summary") });
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
