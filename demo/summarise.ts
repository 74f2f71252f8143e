/**
 * Gathers what the demo's commands wrote into one report.
 *
 *   node build/demo/demo/summarise.js --title T --exp-dir EXP --out RESULTS.json --decoded DECODED.json --transcripts LINES.jsonl --next "command" ... MANIFEST...
 *
 * DECODED is what `serac decode --json` printed for the manifests, in their order; LINES what `serac transcribe --json` printed.
 */
import { readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readJsonl, writeFileAtomic } from "../src/formats/index.ts";
import type { CurvePoint, Report, ResultRow, Transcript } from "./report.ts";

interface Entry {
  audio_filepath: string;
  text: string;
  speaker?: string;
  kind?: "synthetic" | "human";
  /** Recordings that all utterances of the set were joined from, where they were. */
  joined_from?: number;
}

interface Decoded {
  set: string;
  utterances: number;
  words: number;
  substitutions: number;
  deletions: number;
  insertions: number;
}

interface Metric {
  kind: "train" | "valid";
  epoch: number;
  loss: number;
  wer?: number;
}

async function entriesOf(manifest: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const { value } of readJsonl<Entry>(manifest)) entries.push(value);
  return entries;
}

/** A row of the table. Recordings without a kind are taken for what people brought: human. */
function row(decoded: Decoded, entries: readonly Entry[]): ResultRow {
  const { set, utterances, words, substitutions, deletions, insertions } = decoded;
  return {
    name: set,
    speech: entries[0]?.kind ?? "human",
    speakers: new Set(entries.map((entry) => entry.speaker ?? "?")).size,
    recordings: entries[0]?.joined_from ?? entries.length,
    utterances,
    words,
    substitutions,
    deletions,
    insertions,
  };
}

/** The last training loss, the validation loss and the word error rate of each epoch. */
function curve(metrics: readonly Metric[]): CurvePoint[] {
  const points = new Map<number, CurvePoint>();
  for (const { kind, epoch, loss, wer } of metrics) {
    const point = points.get(epoch) ?? { epoch };
    if (kind === "train") point.trainLoss = loss;
    else {
      point.validLoss = loss;
      if (wer !== undefined) point.validWer = 100 * wer;
    }
    points.set(epoch, point);
  }
  return [...points.values()];
}

/** Tokens with their times, as words: "▁" begins one. */
function wordsOf(tokens: readonly { piece: string; time: number }[]): Transcript["words"] {
  const words: { word: string; start: number }[] = [];
  for (const { piece, time } of tokens) {
    const last = words.at(-1);
    if (piece.startsWith("▁") || !last) words.push({ word: piece.replace("▁", ""), start: time });
    else last.word += piece;
  }
  return words;
}

const lines = <T>(path: string): T[] =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as T);

const { values, positionals: manifests } = parseArgs({
  options: {
    title: { type: "string", default: "serac" },
    "exp-dir": { type: "string", default: "" },
    out: { type: "string", default: "" },
    decoded: { type: "string", default: "" },
    transcripts: { type: "string", default: "" },
    next: { type: "string", multiple: true, default: [] },
  },
  allowPositionals: true,
});
const sets = await Promise.all(manifests.map(entriesOf));
const decoded = JSON.parse(readFileSync(values.decoded, "utf8")) as Decoded | Decoded[];
const byPath = new Map(sets.flatMap((entries, i) => entries.map((entry): [string, Entry] => [resolve(dirname(manifests[i] as string), entry.audio_filepath), entry])));
const report: Report = {
  title: values.title,
  rows: (Array.isArray(decoded) ? decoded : [decoded]).map((one, i) => row(one, sets[i] as Entry[])),
  curve: curve(lines<Metric>(join(values["exp-dir"], "metrics.jsonl"))),
  transcripts: lines<{ file: string; tokens: { piece: string; time: number }[] }>(values.transcripts).map(({ file, tokens }) => {
    const entry = byPath.get(resolve(file));
    return { audio: basename(file), speech: entry?.kind ?? "human", reference: entry?.text ?? "", words: wordsOf(tokens) };
  }),
  next: values.next,
};
writeFileAtomic(values.out, `${JSON.stringify(report, null, 2)}\n`);
