/**
 * A part of a tarred dataset as a tarred dataset of its own, or as lhotse's Shar: the utterances that a second manifest names.
 * Source: NeMo, filter_tarred_audio_dataset.py. Audio is FLAC afterwards, with the same samples; members that are FLAC already keep their bytes.
 */
import { closeSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { transcodeAudio } from "../../audio/transcode.ts";
import { fileError, makeFolder, removeQuietly, temporaryPath, writeFileAtomic } from "../../formats/atomic.ts";
import { dumpPython, type PyObject, type PyValue, parsePython, pyFloat } from "../../formats/pythonJson.ts";
import { TarWriter } from "../../formats/tar/write.ts";
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { Losses, type Utterance } from "../manifest/convert/common.ts";
import { readManifestLines } from "../manifest/lines.ts";
import type { ShardSpec } from "../shards.ts";
import { targetInUse } from "./convert/journal.ts";
import { distinctBase, flattenPath } from "./convert/names.ts";
import { tarredDataset } from "./dataset.ts";
import { normalName } from "./match.ts";

export interface FilterTarredOptions {
  manifestFilepath: ShardSpec;
  tarredAudioFilepaths: ShardSpec;
  /** A manifest with the lines to keep; its values replace those of the dataset. */
  filteredManifestFilepath: ShardSpec;
  outputDir: string;
  outputFormat?: "lhotse_shar" | "nemo_tarred";
  /** Utterances of a shard; the last one may have fewer. */
  shardSize?: number;
  onUtterances?: (count: number) => void;
  say?: (line: string) => void;
}

export interface FilterTarredReport {
  kept: number;
  shards: number;
  /** Lines of the second manifest that are not in the dataset. */
  missing: number;
}

/** What tells an utterance: its audio as the manifests name it, and where it begins. */
function keyOf(entry: Record<string, unknown> | PyObject): string {
  const get = (key: string): unknown => (entry instanceof Map ? entry.get(key) : entry[key]);
  const audio = get("audio_filepath") ?? get("audio_file") ?? get("audio_filename");
  const offset = get("offset") as { value?: number } | number | null | undefined;
  return `${typeof audio === "string" ? normalName(audio) : ""}\n${Number(typeof offset === "object" ? (offset?.value ?? 0) : (offset ?? 0))}`;
}

interface Kept {
  values: PyObject;
  at: string;
  used: boolean;
}

/** An utterance that goes to the output: its bytes are FLAC. */
interface Cutting {
  base: string;
  bytes: Uint8Array;
  seconds: number;
  values: PyObject;
  at: string;
}

async function* selected(options: FilterTarredOptions, wanted: Map<string, Kept>): AsyncGenerator<Cutting> {
  const { manifestFilepath: manifest, tarredAudioFilepaths: tars, say } = options;
  const dataset = await tarredDataset({ manifest, tars, decode: false, filter: ({ value }) => wanted.has(keyOf(value)), onWarning: (message) => say?.(message) });
  const names = new Set<string>();
  for await (const { cut, entry, member, bytes, shard } of dataset) {
    const kept = wanted.get(keyOf(entry)) as Kept;
    const at = `${shard}:${member}`;
    if (kept.used) {
      say?.(`${at}: this utterance is in the dataset twice; the first one was taken`);
      continue;
    }
    kept.used = true;
    const whole = cut.offset === undefined;
    const result = await transcodeAudio(bytes, whole ? { codec: "flac" } : { codec: "flac", offset: cut.offset, duration: cut.duration }, at);
    const name = (kept.values.get("audio_filepath") ?? member) as string;
    let { base } = flattenPath(name);
    for (let k = 0; names.has(base); k++) base = distinctBase(base, `${name}-${k}`);
    names.add(base);
    yield {
      base,
      bytes: whole && extname(member).toLowerCase() === ".flac" ? bytes : result.bytes,
      seconds: result.frames / result.sampleRate,
      values: kept.values,
      at: kept.at,
    };
  }
}

/** audio_N.tar and manifest_N.jsonl; a tar file is renamed to its place when it is whole, its manifest follows. */
async function writeNemo(folder: string, utterances: AsyncIterable<Cutting>, shardSize: number, onUtterances: (count: number) => void): Promise<{ kept: number; shards: number }> {
  let shard = 0;
  let kept = 0;
  let lines: string[] = [];
  let open: { fd: number; tar: TarWriter; temporary: string; path: string } | undefined;
  const start = (): NonNullable<typeof open> => {
    const path = join(folder, `audio_${shard}.tar`);
    const temporary = temporaryPath(path);
    const fd = openSync(temporary, "w");
    return { fd, tar: new TarWriter(fd, { deterministicHeaders: true }), temporary, path };
  };
  const end = (): void => {
    if (open === undefined) return;
    open.tar.finish();
    closeSync(open.fd);
    renameSync(open.temporary, open.path);
    open = undefined;
    writeFileAtomic(join(folder, `manifest_${shard}.jsonl`), lines.join(""));
    lines = [];
    shard++;
  };
  try {
    for await (const { base, bytes, values, seconds } of utterances) {
      open ??= start();
      const name = `${base}.flac`;
      open.tar.addBytes(name, bytes);
      const line: PyObject = new Map<string, PyValue>([["audio_filepath", name]]);
      for (const [key, value] of values) if (!["audio_file", "audio_filename", "offset", "audio_filepath", "shard_id"].includes(key)) line.set(key, value);
      line.set("duration", Math.abs(Number(values.get("duration") ?? 0) - seconds) < 0.05 ? (values.get("duration") as PyValue) : pyFloat(seconds));
      line.set("shard_id", shard);
      lines.push(`${dumpPython(line)}\n`);
      kept++;
      onUtterances(1);
      if (lines.length === shardSize) end();
    }
    end();
  } catch (error) {
    if (open) {
      closeSync(open.fd);
      removeQuietly(open.temporary);
    }
    throw fileError(folder, "write", error);
  }
  return { kept, shards: shard };
}

/** Utterances as files for those who read files: one at a time. */
async function* asFiles(utterances: AsyncIterable<Cutting>, folder: string, onUtterances: (count: number) => void): AsyncGenerator<Utterance> {
  for await (const { base, bytes, values, at } of utterances) {
    const path = join(folder, "utterance.flac");
    writeFileSync(path, bytes);
    const object: PyObject = new Map(values);
    for (const key of ["offset", "audio_file", "audio_filename", "shard_id"]) object.delete(key);
    object.set("audio_filepath", path);
    object.set("id", base);
    yield { object, at, base: undefined } as unknown as Utterance;
    onUtterances(1);
  }
}

/**
 * Writes the part. The output folder must not hold shards.
 * @throws ConfigError, ManifestError (TARRED_EMPTY, TARRED_EXISTS, MANIFEST_*), FormatError, AudioError
 */
export async function filterTarred(options: FilterTarredOptions): Promise<FilterTarredReport> {
  const { outputDir, outputFormat = "lhotse_shar", shardSize = 1000, onUtterances = () => {}, say } = options;
  if (!Number.isSafeInteger(shardSize) || shardSize < 1) throw new ConfigError("CONFIG_BAD_VALUE", { message: `the shard size is ${shardSize}, expected 1 or more` });
  const wanted = new Map<string, Kept>();
  for await (const lines of readManifestLines(options.filteredManifestFilepath))
    for (const { text, line, path } of Array.isArray(lines) ? lines : [lines]) {
      const values = parsePython(text) as PyObject;
      wanted.set(keyOf(values), { values, at: `${path}:${line}`, used: false });
    }
  makeFolder(outputDir);
  const taken = readdirSync(outputDir).find((name) => /^(audio_\d+\.tar|cuts\.\d+\.jsonl)/.test(name));
  if (taken !== undefined) throw targetInUse(outputDir, `the folder holds shards already (${taken})`);
  const utterances = selected(options, wanted);
  let result: { kept: number; shards: number };
  if (outputFormat === "nemo_tarred") result = await writeNemo(outputDir, utterances, shardSize, onUtterances);
  else {
    const { writeShar } = await import("../manifest/convert/shar.ts");
    const scratch = mkdtempSync(join(tmpdir(), "serac-filter-"));
    try {
      const kept = await writeShar(outputDir, asFiles(utterances, scratch, onUtterances), new Losses(), { shardSize, audioFormat: "original" });
      result = { kept, shards: Math.ceil(kept / shardSize) };
    } finally {
      rmSync(scratch, { recursive: true, force: true });
    }
  }
  const missing = [...wanted.values()].filter(({ used }) => !used);
  if (missing.length > 0) say?.(`${missing.length} lines of the second manifest are not in the dataset, for instance ${missing[0]?.at}`);
  if (result.kept === 0) throw new ManifestError("TARRED_EMPTY", { at: String(options.filteredManifestFilepath), message: "none of these utterances is in the dataset" });
  return { ...result, missing: missing.length };
}
