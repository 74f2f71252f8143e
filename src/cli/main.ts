/**
 * The command line. Commands are imported when they are called, so that help and data-only commands never load libtorch.
 * Exit codes: 0 done, 1 failed, 2 the command line was wrong, 130 interrupted.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigError, isErrnoException, SeracError } from "../util/errors.ts";
import { packageRoot } from "../util/paths.ts";
import { nearest } from "../util/suggest.ts";
import type { Command } from "./command.ts";
import { Output, type Streams } from "./output.ts";

interface Entry {
  summary: string;
  load(): Promise<Command>;
}

/** Every command by the words that call it. A new command is one line here and one file beside this one. */
export const commands: Record<string, Entry> = {
  train: { summary: "Train a Zipformer on manifests, NeMo configs or icefall's cuts", load: async () => (await import("./train.ts")).train },
  finetune: {
    summary: "Train on from another model: same or other vocabulary, all of its modules or some",
    load: async () => (await import("./finetune.ts")).finetune,
  },
  decode: { summary: "Recognise a manifest and score it: recogs, errs and wer-summary files", load: async () => (await import("./decode.ts")).decode },
  transcribe: { summary: "Print the text of audio files", load: async () => (await import("./transcribe.ts")).transcribe },
  "bpe train": { summary: "Train a SentencePiece model on the texts of a manifest", load: async () => (await import("./bpeTrain.ts")).bpeTrain },
  "batch-sizes": {
    summary: "Find the largest batch size of each bucket that fits into memory",
    load: async () => (await import("./batchSizes.ts")).batchSizes,
  },
  bins: { summary: "Estimate duration buckets of equal total length, and with a tokenizer 2-D ones", load: async () => (await import("./bins.ts")).bins },
  "manifest check": { summary: "Find what is wrong with manifests and their audio; --fix mends it", load: async () => (await import("./manifestCheck.ts")).manifestCheck },
  "manifest convert": {
    summary: "Convert to and from lhotse cuts and Shar, Kaldi data folders, CSV and TSV",
    load: async () => (await import("./manifestConvert.ts")).manifestConvert,
  },
  "manifest stats": { summary: "Hours, durations, characters, words, languages and speakers of manifests", load: async () => (await import("./manifestStats.ts")).manifestStats },
  "manifest filter": { summary: "Write the lines of manifests that fulfil conditions", load: async () => (await import("./manifestFilter.ts")).manifestFilter },
  "manifest split": { summary: "Split manifests in parts by share, hours or number, without leaks", load: async () => (await import("./manifestSplit.ts")).manifestSplit },
  "manifest merge": { summary: "Write several manifests as one", load: async () => (await import("./manifestMerge.ts")).manifestMerge },
  "manifest sample": { summary: "Write some lines of manifests, chosen at random", load: async () => (await import("./manifestSample.ts")).manifestSample },
  tar: { summary: "Convert manifests to a tarred dataset, as NeMo's script does", load: async () => (await import("./tar.ts")).tar },
  "tar filter": { summary: "Write a part of a tarred dataset as a dataset of its own", load: async () => (await import("./tarFilter.ts")).tarFilter },
  "tar shards": { summary: "Tar some shards of a dataset whose manifests were made with --only_manifests", load: async () => (await import("./tarShards.ts")).tarShards },
  "tar verify": { summary: "Verify a tarred dataset: members, entries, durations, checksums", load: async () => (await import("./tarVerify.ts")).tarVerify },
  "tar plan": { summary: "Say before training what each rank would read of a tarred dataset", load: async () => (await import("./tarPlan.ts")).tarPlan },
  "prepare librispeech": {
    summary: "Make manifests, cuts and features of LibriSpeech, as icefall's recipe names them",
    load: async () => (await import("./prepare.ts")).prepareLibrispeechCommand,
  },
  "prepare musan": { summary: "Make manifests, cuts and features of MUSAN, as icefall's recipe names them", load: async () => (await import("./prepare.ts")).prepareMusanCommand },
  "data inspect": {
    summary: "Say what a YAML config will read: hours, shares, bins, padding, batches and steps",
    load: async () => (await import("./dataInspect.ts")).dataInspect,
  },
  "checkpoint show": {
    summary: "What a .pt or safetensors file holds: names, shapes, dtypes, other values",
    load: async () => (await import("./checkpoint.ts")).checkpointShow,
  },
  "checkpoint diff": { summary: "How two checkpoints differ: names, shapes, elements, other values", load: async () => (await import("./checkpoint.ts")).checkpointDiff },
  average: { summary: "Write the average of an experiment's checkpoints as one file", load: async () => (await import("./average.ts")).average },
  "checkpoint convert": { summary: "Convert a checkpoint between .pt and safetensors", load: async () => (await import("./checkpoint.ts")).checkpointConvert },
  doctor: { summary: "Say what serac found on this machine, and how to mend what is missing", load: async () => (await import("./doctor.ts")).doctor },
};

/** @returns the help of `serac`, or of a group of commands ("bpe") */
function overview(group = ""): string {
  const names = Object.keys(commands).filter((name) => name.startsWith(group));
  const width = Math.max(...names.map((name) => name.length));
  return [
    `Usage: serac ${group === "" ? "<command>" : `${group.trim()} <command>`} [options]`,
    "",
    ...(group === "" ? ["Speech recognition on libtorch: prepares data, trains Zipformer models and decodes with them.", ""] : []),
    "Commands:",
    ...names.map((name) => `  ${name.padEnd(width)}  ${commands[name]?.summary}`),
    "",
    `serac ${group}<command> --help shows the options of a command, with examples; serac --version the version.`,
    "",
  ].join("\n");
}

const isHelp = (word: string | undefined): boolean => word === undefined || word === "--help" || word === "-h" || word === "help";

/** @returns the name of the command that the words begin with, and the words behind it; or the help to print */
function find(args: readonly string[]): { name: string; rest: readonly string[] } | { text: string } {
  const [first, second] = args;
  if (first === "help" && second !== undefined) return find([...args.slice(1), "--help"]);
  if (isHelp(first)) return { text: overview() };
  if (first === "--version" || first === "-V") return { text: `${(JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string }).version}\n` };
  const pair = `${first} ${second}`;
  if (Object.hasOwn(commands, pair)) return { name: pair, rest: args.slice(2) };
  if (Object.hasOwn(commands, first as string)) return { name: first as string, rest: args.slice(1) };
  const inGroup = Object.keys(commands).some((name) => name.startsWith(`${first} `));
  if (inGroup && isHelp(second)) return { text: overview(`${first} `) };
  const written = inGroup ? pair : (first as string);
  const near = nearest(written, [...Object.keys(commands), ...Object.keys(commands).map((name) => name.split(" ")[0] as string)]);
  throw new ConfigError("CONFIG_UNKNOWN_OPTION", {
    message: written.startsWith("-") ? `unknown option ${written} before the command` : `unknown command "${written}"`,
    fix: near === undefined ? "for all commands: serac --help" : `did you mean serac ${near}?`,
  });
}

/** Says what went wrong; the stack only where SERAC_DEBUG is set. */
function report(error: unknown, streams: Streams): number {
  const known = error instanceof SeracError || isErrnoException(error);
  const debug = process.env["SERAC_DEBUG"];
  const text = error instanceof Error ? (debug !== undefined && debug !== "" && debug !== "0" && error.stack) || error.message || error.name : String(error);
  streams.stderr.write(`serac: ${text}\n`);
  if (!known && !debug) streams.stderr.write("serac: SERAC_DEBUG=1 shows where this happened\n");
  return error instanceof ConfigError ? 2 : 1;
}

/**
 * Runs a command line.
 * @param args the words after `serac`
 * @returns the exit code
 */
export async function main(args: readonly string[], streams: Streams = process): Promise<number> {
  let out: Output | undefined;
  try {
    const found = find(args);
    if ("text" in found) {
      streams.stdout.write(found.text);
      return 0;
    }
    const loaded = await (commands[found.name] as Entry).load();
    const parsed = loaded.parse(found.rest);
    if (parsed.help) {
      streams.stdout.write(loaded.help());
      return 0;
    }
    out = new Output({ streams, json: parsed.json });
    const code = await parsed.run(out);
    out.end();
    return out.interrupted ? 130 : code;
  } catch (error) {
    out?.end();
    if (out?.interrupted && error instanceof Error && error.name === "AbortError") return 130;
    return report(error, streams);
  }
}
