/** `serac manifest check`: finds what is wrong with manifests, and mends it. */
import { type CheckReport, checkManifest, issueKinds } from "../data/index.ts";
import { boolean, choice, integer, number, path } from "../util/options.ts";
import { command } from "./command.ts";
import { manifests, showHours, showInput } from "./manifestOptions.ts";
import type { Output } from "./output.ts";

function print(report: CheckReport, out: Output): void {
  const { utterances, skipped, seconds, kinds, errors, warnings, samplingRates, channels, audioFrom, fix } = report;
  out.print(`${utterances} utterances, ${showHours(seconds)}${skipped > 0 ? `, ${skipped} with _skipme` : ""}`);
  const rates = Object.entries(samplingRates).map(([rate, count]) => `${rate} Hz: ${count}`);
  if (rates.length > 0)
    out.print(
      `audio: ${rates.join(", ")}; channels: ${Object.entries(channels)
        .map(([n, count]) => `${n}: ${count}`)
        .join(", ")}`,
    );
  const places = {
    absolute: "absolute paths",
    manifest: "beside the manifest",
    workingDirectory: "in the working directory",
    member: "members of tar files",
    url: "in a store",
    nowhere: "nowhere",
  };
  const from = Object.entries(audioFrom).map(([place, count]) => `${count} ${places[place as keyof typeof places]}`);
  if (from.length > 0) out.print(`paths: ${from.join(", ")}`);
  if (audioFrom.member) out.print("members of tar files are checked by: serac tar verify");
  for (const { kind, severity, what, count, mended, examples } of kinds) {
    const done = fix !== undefined && mended > 0 && "mend" in issueKinds[kind] ? ` (${mended} mended)` : "";
    out.print("");
    out.print(`${severity === "error" ? "ERROR  " : "warning"}  ${count}  ${what}${done}  [${kind}]`);
    for (const { at, message } of examples) out.print(`           ${at}: ${message}`);
  }
  out.print("");
  out.print(errors === 0 && warnings === 0 ? "nothing wrong found" : `${errors} error${errors === 1 ? "" : "s"}, ${warnings} warning${warnings === 1 ? "" : "s"}`);
  if (fix) out.print(`wrote ${fix.out}: ${fix.kept} lines, ${fix.changed} of them changed, ${fix.dropped} dropped; ${fix.changes} says what and why`);
}

export const manifestCheck = command({
  name: "manifest check",
  summary: "Find what is wrong with manifests and their audio; --fix mends it",
  description: [
    "Reads every line and the header of every audio file. Ends with 1 where errors were found, or with --fix where some could not be mended.",
    "An interrupted check goes on where it was: what it read is kept in MANIFEST.check until it ends.",
  ].join("\n"),
  examples: [
    "serac manifest check train.jsonl",
    "serac manifest check train.jsonl --bpe-model bpe.model --fix train-mended.jsonl",
    "serac manifest check 'manifest_{0..7}.json' --json",
  ],
  positional: { manifest: manifests },
  options: {
    fix: path({ unit: "file", help: "write the mended manifest here, and beside it what was changed or dropped and why" }),
    audio: choice(["headers", "decode", "none"], { default: "headers", help: "read headers, or decode all audio, or look at no audio" }),
    tolerance: number({ default: 0.05, min: 0, unit: "seconds", help: "by how much durations may differ" }),
    workers: integer({ default: 16, min: 1, max: 1024, help: "files that are read at once" }),
    canary: choice(["auto", "v1", "v2", "none"], { default: "auto", help: "check the keys of Canary: of lines that have them, of all, or of none" }),
    bpeModel: path({ unit: "file", help: "SentencePiece model, to find texts with more tokens than frames" }),
    useCtc: boolean({ default: true, help: "count the blanks that CTC needs between equal tokens" }),
    sampleRate: integer({ default: 16000, min: 1, unit: "hertz", help: "rate of the features, for counting frames" }),
    examples: integer({ default: 3, min: 0, help: "examples of each kind" }),
    resumeFile: path({ default: "auto", unit: "file", help: 'where headers are kept while it runs; "none" keeps none' }),
  },
  async run({ manifest, bpeModel, fix, useCtc, ...options }, out) {
    const tokenizer = bpeModel === undefined ? undefined : (await import("../text/index.ts")).SentencePiece.load(bpeModel);
    const progress = out.progress(undefined, "utterances", "checking");
    const report = await checkManifest(manifest, {
      ...options,
      ctc: useCtc,
      ...(tokenizer === undefined ? {} : { tokenizer }),
      ...(fix === undefined ? {} : { fix }),
      signal: out.signal,
      onProgress: (lines) => progress.add(lines),
    });
    progress.finish(report.resumed > 0 ? `${report.resumed} headers from the check that was interrupted` : "");
    if (out.json) out.print(JSON.stringify(report));
    else print(report, out);
    const left = report.kinds.filter(({ severity }) => severity === "error").reduce((sum, { count, mended }) => sum + count - mended, 0);
    if (report.errors > 0 && fix === undefined) out.next(`serac manifest check ${showInput(manifest)} --fix mended.jsonl`);
    else out.next(`serac tar --manifest-path ${fix ?? showInput(manifest)} --num-shards 64 --max-duration 20 --target-dir tarred`);
    return left > 0 ? 1 : 0;
  },
});
