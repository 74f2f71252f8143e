/**
 * LibriSpeech as downloaded (PART/READER/CHAPTER/*.flac with READER-CHAPTER.trans.txt) becomes lhotse's recordings, supervisions and cuts under
 * the names that icefall's recipe expects. Source: lhotse, recipes/librispeech.py; icefall, local/compute_fbank_librispeech.py and prepare.sh.
 */
import { createReadStream, existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";
import { audioInfo } from "../../../audio/index.ts";
import { fileError } from "../../../formats/atomic.ts";
import { ManifestError, SeracError } from "../../../util/errors.ts";
import { Random } from "../../../util/random.ts";
import type { LeftOut } from "../../filter.ts";
import { type ManifestWriter, withWriters } from "../../manifest/writer.ts";
import { prefetch } from "../../prefetch.ts";
import { type CorpusItem, type CutPlan, planCut, recordingLine, supervisionLine } from "./lines.ts";
import { writeCuts } from "./write.ts";

/** Parts of LibriSpeech and of Mini LibriSpeech. */
export const librispeechParts = [
  "dev-clean",
  "dev-other",
  "test-clean",
  "test-other",
  "train-clean-100",
  "train-clean-360",
  "train-other-500",
  "dev-clean-2",
  "train-clean-5",
] as const;
const trainParts = ["train-clean-100", "train-clean-360", "train-other-500"];
const speeds = [1, 0.9, 1.1];

/** How to prepare a corpus. */
export interface PrepareOptions {
  /** Folders of manifests and of cuts with features: icefall's are data/manifests and data/fbank. */
  manifestFolder: string;
  cutsFolder: string;
  /** False leaves features to be computed while training. */
  features: boolean;
  numMelBins: number;
  jobs: number;
  /** Bad files and lines are counted there. */
  leftOut: LeftOut;
  onStart?: ((part: string, cuts: number) => void) | undefined;
  onProgress?: ((cuts: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** A part that is prepared. */
export interface PreparedPart {
  part: string;
  recordings: number;
  cuts: number;
  /** Hours of the recordings, and of the cuts. */
  hours: number;
  cutHours: number;
  path: string;
  /** False where its cuts were there already. */
  written: boolean;
}

/** A folder of a corpus, itself or one below it. @throws ManifestError CORPUS_BAD */
export function corpusFolder(folder: string, below: string, parts: readonly string[], corpus: string): string {
  if (!existsSync(folder)) throw fileError(folder, "read", Object.assign(new Error("no such folder"), { code: "ENOENT" }));
  for (const candidate of [folder, join(folder, below)]) if (parts.some((part) => existsSync(join(candidate, part)))) return candidate;
  throw new ManifestError("CORPUS_BAD", {
    at: folder,
    message: `no part of ${corpus}: expected folders as ${parts.slice(0, 3).join(", ")}`,
    fix: `give the folder that ${corpus} was unpacked to`,
  });
}

/** Files below a folder whose names end so, sorted. */
export function filesBelow(folder: string, ending: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (!entry.isDirectory() && entry.name.endsWith(ending)) found.push(join(entry.parentPath, entry.name));
  return found.sort();
}

/** Reads headers several at a time; files that cannot be read are counted and left out. */
export async function withHeaders<T extends { path: string }>(
  files: readonly T[],
  jobs: number,
  leftOut: LeftOut,
): Promise<{ file: T; sampleRate: number; samples: number; channels: number }[]> {
  const result: { file: T; sampleRate: number; samples: number; channels: number }[] = [];
  const read = async (file: T) => {
    try {
      const { sampleRate, frames, channels } = await audioInfo(file.path);
      return { file, sampleRate, samples: frames, channels };
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      leftOut.add("audio files that cannot be read", error.message);
      return undefined;
    }
  };
  for await (const one of prefetch(files, Math.max(2, jobs), read)) if (one) result.push(one);
  return result;
}

async function itemsOf(folder: string, { jobs, leftOut }: PrepareOptions): Promise<CorpusItem[]> {
  const files: { id: string; path: string; text: string }[] = [];
  for (const transcript of filesBelow(folder, ".trans.txt"))
    for (const [i, line] of readFileSync(transcript, "utf8").split("\n").entries()) {
      if (line.trim() === "") continue;
      const [, id, text] = /^(\S+)\s+(.*\S)\s*$/.exec(line) ?? [];
      if (id === undefined || text === undefined) {
        leftOut.add("lines of transcripts without a text", `${transcript}:${i + 1}`);
        continue;
      }
      files.push({ id, path: join(folder, ...id.split("-").slice(0, -1), `${id}.flac`), text });
    }
  const found = await withHeaders(files, jobs, leftOut);
  return found.map(({ file, ...audio }) => ({ ...file, ...audio, language: "English", speaker: file.id.replace(/-.*/, "") }));
}

const hours = (items: readonly { samples: number; sampleRate: number }[]): number => items.reduce((sum, { samples, sampleRate }) => sum + samples / sampleRate, 0) / 3600;

/**
 * Prepares the parts that are there, or those that are named.
 * @throws ManifestError CORPUS_BAD; FormatError FILE_UNWRITABLE; AudioError while features are computed
 */
export async function prepareLibrispeech(folder: string, options: PrepareOptions & { parts?: readonly string[] | undefined; perturbSpeed?: boolean }): Promise<PreparedPart[]> {
  const { manifestFolder, cutsFolder, features, perturbSpeed = true, onStart } = options;
  const corpus = corpusFolder(folder, "LibriSpeech", librispeechParts, "LibriSpeech");
  const parts = options.parts ?? librispeechParts.filter((part) => existsSync(join(corpus, part)));
  const prepared: PreparedPart[] = [];
  for (const part of parts) {
    if (!existsSync(join(corpus, part)))
      throw new ManifestError("CORPUS_BAD", { at: join(corpus, part), message: "there is no such part", fix: `parts: ${librispeechParts.join(", ")}` });
    const items = await itemsOf(join(corpus, part), options);
    if (items.length === 0)
      throw new ManifestError("CORPUS_BAD", { at: join(corpus, part), message: "no utterance with a transcript and readable audio", fix: "unpack the part again" });
    for (const [kind, line] of [
      ["recordings", recordingLine],
      ["supervisions", supervisionLine],
    ] as const) {
      const path = join(manifestFolder, `librispeech_${kind}_${part}.jsonl.gz`);
      if (!existsSync(path))
        await withWriters([path], async ([writer]) => {
          for (const item of items) await writer?.writeText(line(item));
        });
    }
    const factors = perturbSpeed && part.includes("train") ? speeds : [1];
    const plans = factors.flatMap((factor) => items.map((item, i): CutPlan => planCut(item, i, factor)));
    onStart?.(part, plans.length);
    const path = join(cutsFolder, `librispeech_cuts_${part}.jsonl.gz`);
    const written = await writeCuts(plans, { ...options, path, featureFolder: features ? join(cutsFolder, `librispeech_feats_${part}`) : undefined });
    const cutHours = hours(plans.map(({ samples, item }) => ({ samples, sampleRate: item.sampleRate })));
    prepared.push({ part, recordings: items.length, cuts: plans.length, hours: hours(items), cutHours, path, written });
  }
  return prepared;
}

/** The shuffled cuts of all training parts, which icefall's recipe reads under --full-libri and --mini-libri 0. */
export async function shuffleTrainCuts(cutsFolder: string, seed: number): Promise<{ path: string; cuts: number } | undefined> {
  const sources = trainParts.map((part) => join(cutsFolder, `librispeech_cuts_${part}.jsonl.gz`));
  const path = join(cutsFolder, "librispeech_cuts_train-all-shuf.jsonl.gz");
  if (existsSync(path) || !sources.every((source) => existsSync(source))) return undefined;
  return { path, cuts: await shuffleLines(sources, path, seed) };
}

/** Shuffles the lines of gzip files in bounded memory: dealt out to piles at random, each of which is then shuffled. */
export async function shuffleLines(sources: readonly string[], path: string, seed: number, piles = 16): Promise<number> {
  const random = new Random(seed);
  const scratch = await mkdtemp(join(tmpdir(), "serac-shuffle-"));
  const names = Array.from({ length: piles }, (_, i) => join(scratch, `${i}.jsonl.gz`));
  try {
    await withWriters(names, async (writers) => {
      for (const source of sources) for await (const line of linesOf(source)) await (writers[random.integer(0, piles)] as ManifestWriter).writeText(line);
    });
    let count = 0;
    await withWriters([path], async ([writer]) => {
      for (const name of names) {
        const lines: string[] = [];
        for await (const line of linesOf(name)) lines.push(line);
        for (const line of random.shuffle(lines)) await writer?.writeText(line);
        count += lines.length;
      }
    });
    return count;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function* linesOf(path: string): AsyncGenerator<string> {
  for await (const line of createInterface({ input: createReadStream(path).pipe(createGunzip()) })) if (line !== "") yield line;
}
