/**
 * Features that were computed before, as lhotse stores them: of an utterance only the chunks are read that its cut plays.
 * Read: lilcom_chunky, lilcom_files, numpy_files, and members of Shar's tars. Written: lilcom_chunky. HDF5, Kaldi archives and URLs are refused with words.
 * Source: lhotse, features/io.py and features/base.py.
 */
import { closeSync, fsyncSync, openSync, renameSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isFinite32 } from "../../audio/decode.ts";
import type { Features } from "../../audio/index.ts";
import { fileError, makeFolder, removeQuietly, temporaryPath, writeFully } from "../../formats/atomic.ts";
import { compressLilcom, decompressLilcom, type FloatArray } from "../../formats/lilcom.ts";
import { parseNpy } from "../../formats/npy.ts";
import { FormatError, ManifestError } from "../../util/errors.ts";
import { type MemberPlace, readMember } from "../audioSource.ts";
import { numFrames } from "./times.ts";

/** Frames of a chunk. Source: lhotse, CHUNKY_FORMAT_CHUNK_SIZE. */
export const chunkFrames = 500;

/** lhotse's Features: what is stored where. Times are seconds of the recording. */
export interface FeaturesManifest {
  type: string;
  numFrames: number;
  numFeatures: number;
  frameShift: number;
  samplingRate: number;
  start: number;
  duration: number;
  storageType: string;
  storagePath: string;
  storageKey: string;
}

/** A cut's part of stored features. */
export interface StoredFeatures {
  manifest: FeaturesManifest;
  /** In a tar, where Shar keeps them. */
  member: MemberPlace | undefined;
  /** Seconds of the recording from which on they are played, and how many. */
  start: number;
  duration: number;
  /** Where the data names them: "cuts.jsonl.gz:17". */
  origin: string;
}

/** Kinds of storage that are read. */
export const storageTypes = ["lilcom_chunky", "lilcom_files", "numpy_files", "shar"] as const;

const convert = "store them again with lhotse: lhotse feat upload, or cuts.copy_feats(LilcomChunkyWriter(...)); or leave features out, and train on the audio";
const refusals: Readonly<Record<string, string>> = {
  numpy_hdf5: "HDF5 files are not read",
  lilcom_hdf5: "HDF5 files are not read",
  chunked_lilcom_hdf5: "HDF5 files are not read",
  kaldiio: "Kaldi's archives are not read",
  lilcom_url: "only files are read",
  numpy_url: "only files are read",
  memory_lilcom: "features within a manifest are not read",
  memory_raw: "features within a manifest are not read: they are Python pickles",
  memory_npy: "features within a manifest are not read",
  shar_ptr_array: "pointers into tars are not read: name the Shar folder as lhotse_shar",
};

/**
 * Reads the `features` of a cut.
 * @param at file:line
 * @throws ManifestError FEATURES_BAD where a field is missing or no number; FEATURES_STORAGE for kinds of storage that are not read
 */
export function parseFeatures(value: unknown, at: string): FeaturesManifest {
  const bad = (message: string): never => {
    throw new ManifestError("FEATURES_BAD", { at, message: `"features": ${message}`, fix: "compute the features again" });
  };
  if (typeof value !== "object" || value === null) return bad("expected an object");
  const object = value as Readonly<Record<string, unknown>>;
  const number = (key: string, least: number): number => {
    const found = object[key];
    if (typeof found !== "number" || !Number.isFinite(found) || found < least) return bad(`"${key}" is ${JSON.stringify(found) ?? "missing"}`);
    return found;
  };
  const text = (key: string): string => {
    const found = object[key];
    return typeof found === "string" ? found : bad(`"${key}" is ${JSON.stringify(found)?.slice(0, 40) ?? "missing"}, expected a text`);
  };
  const storageType = text("storage_type");
  if (!(storageTypes as readonly string[]).includes(storageType))
    throw new ManifestError("FEATURES_STORAGE", {
      at,
      message: `features are stored as ${storageType}: ${refusals[storageType] ?? `expected one of ${storageTypes.join(", ")}`}`,
      fix: convert,
    });
  const manifest: FeaturesManifest = {
    type: text("type"),
    numFrames: number("num_frames", 1),
    numFeatures: number("num_features", 1),
    frameShift: number("frame_shift", 1e-6),
    samplingRate: number("sampling_rate", 1),
    start: number("start", 0),
    duration: number("duration", 0),
    storageType,
    storagePath: text("storage_path"),
    storageKey: text("storage_key"),
  };
  if (storageType === "lilcom_chunky") chunkOffsets(manifest, at);
  return manifest;
}

/** Where chunks begin and the last one ends, from the key "offset,size,size,...". @throws ManifestError FEATURES_BAD */
function chunkOffsets({ storageKey, numFrames: frames }: FeaturesManifest, at: string): number[] {
  const offsets: number[] = [];
  let sum = 0;
  for (const part of storageKey.split(",")) {
    sum += /^\d+$/.test(part) ? Number(part) : Number.NaN;
    offsets.push(sum);
  }
  const chunks = Math.ceil(frames / chunkFrames);
  if (!Number.isSafeInteger(sum) || offsets.length !== chunks + 1)
    throw new ManifestError("FEATURES_BAD", {
      at,
      message: `"storage_key" is "${storageKey.slice(0, 40)}", expected the offset and the size of ${chunks} chunks of ${chunkFrames} frames`,
      fix: "compute the features again",
    });
  return offsets;
}

async function readRange(path: string, from: number, to: number): Promise<Buffer> {
  const file = await open(path, "r").catch((error: unknown) => {
    throw fileError(path, "read", error);
  });
  try {
    const bytes = Buffer.allocUnsafe(to - from);
    for (let done = 0; done < bytes.length; ) {
      const { bytesRead } = await file.read(bytes, done, bytes.length - done, from + done);
      if (bytesRead === 0)
        throw new FormatError("LILCOM_BAD", { at: `${path}:${from}`, message: `the archive ends at ${from + done} bytes, expected ${to}`, fix: "copy the archive again" });
      done += bytesRead;
    }
    return bytes;
  } catch (error) {
    throw fileError(path, "read", error);
  } finally {
    await file.close();
  }
}

const whole = async (path: string): Promise<Buffer> =>
  readFile(path).catch((error: unknown) => {
    throw fileError(path, "read", error);
  });

/** Rows `from` to `to` of an array, as many as there are. */
function rowsOf({ shape, data }: FloatArray, from: number, to: number, at: string): Features {
  const [rows = 0, bins = 0] = shape;
  if (shape.length !== 2) throw new FormatError("FEATURES_BAD", { at, message: `stored features have ${shape.length} axes, expected frames and bins` });
  const first = Math.min(from, rows);
  const last = Math.min(to, rows);
  return { frames: last - first, bins, data: data.subarray(first * bins, last * bins) };
}

/** The rows `from` to `to`; of archives of chunks only those that hold them are read. */
async function readRows({ manifest, member, origin }: StoredFeatures, from: number, to: number): Promise<Features> {
  const { storageType, storagePath, storageKey } = manifest;
  if (member) {
    const at = `${storagePath}:${member.name}`;
    const bytes = await readMember(storagePath, member);
    return rowsOf(bytes[0] === 0x93 ? parseNpy(bytes, at) : decompressLilcom(bytes, at), from, to, at);
  }
  if (storageType === "lilcom_chunky") {
    const offsets = chunkOffsets(manifest, origin);
    const firstChunk = Math.min(Math.floor(from / chunkFrames), offsets.length - 2);
    const lastChunk = Math.min(Math.ceil(to / chunkFrames), offsets.length - 1);
    const start = offsets[firstChunk] as number;
    const bytes = await readRange(storagePath, start, offsets[lastChunk] as number);
    const parts: Features[] = [];
    for (let chunk = firstChunk; chunk < lastChunk; chunk++) {
      const at = `${storagePath}:${offsets[chunk]}`;
      const array = decompressLilcom(bytes.subarray((offsets[chunk] as number) - start, (offsets[chunk + 1] as number) - start), at);
      parts.push(rowsOf(array, Math.max(0, from - chunk * chunkFrames), to - chunk * chunkFrames, at));
    }
    const [one] = parts;
    if (parts.length === 1 && one) return one;
    const bins = one?.bins ?? manifest.numFeatures;
    const data = new Float32Array(parts.reduce((sum, part) => sum + part.data.length, 0));
    let done = 0;
    for (const part of parts) {
      data.set(part.data, done);
      done += part.data.length;
    }
    return { frames: data.length / bins, bins, data };
  }
  const path = join(storagePath, storageKey);
  const bytes = await whole(path);
  return rowsOf(storageType === "numpy_files" ? parseNpy(bytes, path) : decompressLilcom(bytes, path), from, to, path);
}

/**
 * The features of a cut: one frame too many is cut off, one too few repeated, as lhotse does.
 * @returns (T, C)
 * @throws FormatError LILCOM_BAD, NPY_BAD, FILE_MISSING; ManifestError FEATURES_BAD where what is stored is not what the manifest says
 */
export async function readFeatures(stored: StoredFeatures): Promise<Features> {
  const { manifest, start, duration, origin } = stored;
  const { frameShift, samplingRate } = manifest;
  const from = Math.abs(start - manifest.start) < 1e-9 ? 0 : numFrames(start - manifest.start, frameShift, samplingRate);
  const expected = numFrames(duration, frameShift, samplingRate);
  const found = await readRows(stored, from, from + expected);
  if (found.bins !== manifest.numFeatures)
    throw new ManifestError("FEATURES_BAD", { at: origin, message: `${found.bins} bins are stored, the manifest says ${manifest.numFeatures}`, fix: "compute the features again" });
  if (!isFinite32(found.data))
    throw new ManifestError("FEATURES_BAD", { at: origin, message: "some of the stored values are NaN or infinite", fix: "look at its audio and compute the features again" });
  if (found.frames === expected) return found;
  if (found.frames !== expected - 1 || found.frames === 0)
    throw new ManifestError("FEATURES_BAD", {
      at: origin,
      message: `${found.frames} frames are stored from ${start} s on, the cut has ${expected}`,
      fix: "compute the features again: audio or manifest changed since",
    });
  const data = new Float32Array(expected * found.bins);
  data.set(found.data);
  data.copyWithin(found.data.length, found.data.length - found.bins, found.data.length);
  return { frames: expected, bins: found.bins, data };
}

/** Writes an archive of lilcom chunks: at its place when `close` is called, thrown away by `abandon`. */
export class FeatureArchive {
  readonly path: string;
  private readonly temporary: string;
  private fd: number | undefined;
  private offset = 0;

  /** @param path lhotse expects the suffix .lca @throws FormatError FILE_UNWRITABLE */
  constructor(path: string) {
    this.path = path;
    this.temporary = temporaryPath(path);
    try {
      makeFolder(dirname(path));
      this.fd = openSync(this.temporary, "w");
    } catch (error) {
      throw fileError(path, "write", error);
    }
  }

  /** @returns the storage key @throws FormatError FILE_UNWRITABLE, LILCOM_BAD */
  add({ frames, bins, data }: Features): string {
    const key = [this.offset];
    try {
      for (let from = 0; from < frames; from += chunkFrames) {
        const rows = Math.min(chunkFrames, frames - from);
        const bytes = compressLilcom({ shape: [rows, bins], data: data.subarray(from * bins, (from + rows) * bins) });
        writeFully(this.fd as number, bytes);
        key.push(bytes.length);
        this.offset += bytes.length;
      }
    } catch (error) {
      throw fileError(this.path, "write", error);
    }
    return key.join(",");
  }

  /** @throws FormatError FILE_UNWRITABLE */
  close(): void {
    try {
      fsyncSync(this.fd as number);
      closeSync(this.fd as number);
      this.fd = undefined;
      renameSync(this.temporary, this.path);
    } catch (error) {
      this.abandon();
      throw fileError(this.path, "write", error);
    }
  }

  abandon(): void {
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
    removeQuietly(this.temporary);
  }
}
