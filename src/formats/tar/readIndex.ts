/**
 * Random access to plain tars by `.idx` files: 64-bit little-endian offsets of the first header of each sample, then the file's size.
 * Consecutive members that differ in their last suffix only are one sample. Source: the layout of NeMo's and lhotse's `<file>.idx`.
 */
import { type FileHandle, open, readFile } from "node:fs/promises";
import { FormatError, isErrnoException } from "../../util/errors.ts";
import { fileError, writeFileAtomic } from "../atomic.ts";
import { isRegular, type ReadTarOptions, readTar, readTarSource, type TarMember } from "./read.ts";
import { openTarSource, sliceSource, type TarSource } from "./source.ts";

/** Where the index of an archive lies. */
export const indexPath = (tar: string): string => `${tar}.idx`;

/** A member's name without its folder and its last suffix: Python's Path(name).stem. */
export function sampleKey(name: string): string {
  const base = name.slice(name.lastIndexOf("/") + 1);
  const dot = base.lastIndexOf(".");
  return dot <= 0 || dot === base.length - 1 ? base : base.slice(0, dot);
}

const remove = "remove it: it is built again when it is needed";
const compressed = (tar: string, compression: string): FormatError =>
  new FormatError("TAR_COMPRESSED", { at: tar, message: `a ${compression} archive cannot be read at random`, fix: "unpack it once (gunzip, bunzip2, unxz), or read it in order" });

/** Offsets of the samples, and where the file ends. */
export interface TarIndex {
  offsets: number[];
  fileSize: number;
}

/**
 * Reads the bytes of an index. The last number, the file's size, may be missing in old files.
 * @param fileSize size of the archive that it belongs to
 * @param at the name that errors give
 * @param strict refuses indices without the file's size: they may be those of an older archive
 * @throws FormatError TAR_INDEX_BAD where the numbers do not ascend, leave the file, or belong to one of another size
 */
export function parseTarIndex(bytes: Uint8Array, fileSize: number, at: string, { strict = false }: { strict?: boolean } = {}): TarIndex {
  const bad = (message: string): never => {
    throw new FormatError("TAR_INDEX_BAD", { at, message, fix: remove });
  };
  if (bytes.length === 0 || bytes.length % 8 !== 0) bad(`an index of ${bytes.length} bytes, expected a multiple of 8`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const offsets: number[] = [];
  for (let i = 0; i < bytes.length; i += 8) {
    const offset = view.getUint32(i, true) + view.getUint32(i + 4, true) * 2 ** 32;
    const last = i === bytes.length - 8;
    if (last && offset === fileSize) break;
    if (offset >= fileSize) bad(`offset ${offset} lies behind the end of the archive, ${fileSize} bytes: it was written since, or is another one`);
    if (offset % 512 !== 0 || (offsets.length > 0 && offset <= (offsets.at(-1) as number))) bad(`number ${i / 8} is ${offset}: expected ascending multiples of 512`);
    offsets.push(offset);
    if (last && strict) bad(`it does not end with the size of the archive, ${fileSize} bytes: it was written since, or is another one`);
  }
  return { offsets, fileSize };
}

/** The bytes of an index. */
export function serializeTarIndex({ offsets, fileSize }: TarIndex): Buffer {
  const bytes = Buffer.alloc(8 * (offsets.length + 1));
  [...offsets, fileSize].forEach((offset, i) => {
    bytes.writeUInt32LE(offset % 2 ** 32, 8 * i);
    bytes.writeUInt32LE(Math.floor(offset / 2 ** 32), 8 * i + 4);
  });
  return bytes;
}

/** The samples of members in order. */
export function indexOfMembers(members: Iterable<TarMember>, fileSize: number): TarIndex {
  const offsets: number[] = [];
  let previous: string | undefined;
  for (const member of members) {
    if (!isRegular(member)) continue;
    const key = sampleKey(member.name);
    if (key !== previous) offsets.push(member.headerOffset);
    previous = key;
  }
  return { offsets, fileSize };
}

/**
 * Reads all headers of a plain archive.
 * @throws FormatError TAR_COMPRESSED; TAR_BAD, TAR_TRUNCATED unless `onDamaged` takes them
 */
export async function buildTarIndex(tar: string, options: ReadTarOptions = {}): Promise<{ index: TarIndex; members: TarMember[] }> {
  const { source, compression, size } = await openTarSource(tar, { window: 1 << 16 });
  try {
    if (compression !== "none")
      throw new FormatError("TAR_COMPRESSED", {
        at: tar,
        message: `a ${compression} archive cannot be read at random`,
        fix: "unpack it once (gunzip, bunzip2, unxz), or read it in order",
      });
    const members: TarMember[] = [];
    for await (const member of readTarSource(source, tar, { ...options, data: false })) members.push(member);
    return { index: indexOfMembers(members, size), members };
  } finally {
    await source.close();
  }
}

/** Writes `<tar>.idx`, whole or not at all. @throws FormatError FILE_UNWRITABLE */
export function writeTarIndex(tar: string, index: TarIndex): void {
  writeFileAtomic(indexPath(tar), serializeTarIndex(index));
}

/**
 * The index beside an archive; undefined where there is none.
 * @throws FormatError TAR_INDEX_BAD, FILE_UNREADABLE
 */
export async function readTarIndex(tar: string, fileSize: number, options: { strict?: boolean } = {}): Promise<TarIndex | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readFile(indexPath(tar));
  } catch (error) {
    if (isErrnoException(error) && error.code === "ENOENT") return undefined;
    throw fileError(indexPath(tar), "read", error);
  }
  return parseTarIndex(bytes, fileSize, indexPath(tar), options);
}

/** Bytes between two offsets as a source of their own, whose positions are those of the file. */
async function rangeSource(file: FileHandle, tar: string, start: number, end: number): Promise<TarSource> {
  const bytes = Buffer.allocUnsafe(end - start);
  let filled = 0;
  try {
    while (filled < bytes.length) {
      const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, start + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
  } catch (error) {
    throw fileError(tar, "read", error);
  }
  let at = 0;
  const take = (count: number): Promise<Buffer> => {
    const part = bytes.subarray(at, Math.min(filled, at + count));
    at += part.length;
    return Promise.resolve(part);
  };
  return {
    seekable: true,
    get position() {
      return start + at;
    },
    take,
    takeOwn: take,
    skip: async (count) => (await take(count)).length,
    close: () => Promise.resolve(),
  };
}

/**
 * The members of a plain archive by its index: headers are read side by side, which a disk far away likes. Undefined where there is no index.
 * @throws FormatError TAR_COMPRESSED, TAR_INDEX_BAD, TAR_BAD, FILE_MISSING, FILE_UNREADABLE
 */
export async function listIndexed(tar: string): Promise<TarMember[] | undefined> {
  const { source, compression, size } = await openTarSource(tar, { window: 512 });
  await source.close();
  if (compression !== "none") throw compressed(tar, compression);
  const index = await readTarIndex(tar, size, { strict: true });
  if (!index) return undefined;
  const { offsets } = index;
  const file = await open(tar, "r");
  try {
    const samples = new Array<TarMember[]>(offsets.length);
    let next = 0;
    const run = async (): Promise<void> => {
      while (next < offsets.length) {
        const i = next++;
        const members: TarMember[] = [];
        for await (const member of readTarSource(sliceSource(file, tar, offsets[i] as number, offsets[i + 1] ?? size), tar, { data: false })) members.push(member);
        if (members.length === 0) throw new FormatError("TAR_INDEX_BAD", { at: indexPath(tar), message: `no member begins at offset ${offsets[i]}`, fix: remove });
        samples[i] = members;
      }
    };
    await Promise.all(Array.from({ length: 8 }, run));
    return samples.flat();
  } finally {
    await file.close();
  }
}

/** A plain archive whose samples can be read in any order. */
export class IndexedTar {
  readonly path: string;
  private readonly index: TarIndex;
  private readonly file: FileHandle;

  /**
   * Opens an archive by its index, which is built and written beside it where it is absent; where it cannot be written, it is kept in memory.
   * @throws FormatError FILE_MISSING, TAR_COMPRESSED, TAR_INDEX_BAD, TAR_BAD, TAR_TRUNCATED
   */
  static async open(path: string): Promise<IndexedTar> {
    const { source, compression, size } = await openTarSource(path, { window: 512 });
    await source.close();
    let index = compression === "none" ? await readTarIndex(path, size) : undefined;
    if (!index) {
      index = (await buildTarIndex(path)).index;
      try {
        writeTarIndex(path, index);
      } catch (error) {
        if (!(error instanceof FormatError)) throw error; // a read-only folder: the index serves from memory
      }
    }
    return new IndexedTar(path, index, await open(path, "r"));
  }

  private constructor(path: string, index: TarIndex, file: FileHandle) {
    this.path = path;
    this.index = index;
    this.file = file;
  }

  /** Samples. */
  get length(): number {
    return this.index.offsets.length;
  }

  /**
   * The members of a sample, with their bytes, by one read.
   * @throws FormatError TAR_BAD, TAR_TRUNCATED; RangeError outside of the archive
   */
  async sample(i: number): Promise<TarMember[]> {
    const { offsets, fileSize } = this.index;
    const start = offsets[i];
    if (start === undefined) throw new RangeError(`sample ${i} of ${offsets.length}`);
    const source = await rangeSource(this.file, this.path, start, offsets[i + 1] ?? fileSize);
    const members: TarMember[] = [];
    for await (const member of readTarSource(source, this.path)) members.push(member);
    if (members.length === 0) throw new FormatError("TAR_INDEX_BAD", { at: indexPath(this.path), message: `no member begins at offset ${start}`, fix: remove });
    return members;
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** Reads an archive to its end and gives its members without their bytes: packed ones too. @throws as readTar */
export async function listTar(path: string, options: ReadTarOptions = {}): Promise<TarMember[]> {
  const members: TarMember[] = [];
  for await (const member of readTar(path, { ...options, data: false })) members.push(member);
  return members;
}
