/** Looks at the audio of planned entries before anything is written: is it there, has it bytes, and do two paths meet in one name. */
import { accessSync, constants, statSync } from "node:fs";
import { toFsPath } from "../../../formats/surrogateEscape.ts";
import { paddedSize } from "../../../formats/tar/header.ts";
import { HashTable, hashText, NumberList } from "../../../util/hash.ts";
import { EntryReader, type PlanRows } from "./entries.ts";
import { flattenPath, withoutSubMark } from "./names.ts";

/** What a part of a plan came to. */
export interface CheckResult {
  /** Rows of the part whose audio cannot be tarred, and why: "manifest:line: path: reason". */
  bad: { row: number; why: string }[];
  /** Bytes that the files take in a tar file, each counted once where it is repeated without a break. */
  bytes: number;
  /** Hashes by row: of the flattened base, of the path. Two 32-bit halves each. */
  hashes: Uint32Array;
}

/** @returns why the file cannot be read, or its size */
function lookAt(path: string): number | string {
  try {
    const stat = statSync(toFsPath(path), { throwIfNoEntry: false });
    if (stat === undefined) return "no such file";
    if (!stat.isFile()) return "not a regular file";
    if (stat.size === 0) return "the file has no bytes";
    accessSync(toFsPath(path), constants.R_OK);
    return stat.size;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** @throws FormatError, ManifestError when the manifest changed since it was planned */
export function checkRows(rows: PlanRows): CheckResult {
  const reader = new EntryReader(rows);
  const result: CheckResult = { bad: [], bytes: 0, hashes: new Uint32Array(rows.offsets.length * 4) };
  let last = "";
  let lastSize: number | string = 0;
  try {
    for (let i = 0; i < reader.count; i++) {
      const { audio, at, found } = reader.readAudio(i);
      if (audio !== last || i === 0) {
        last = audio;
        lastSize = found ? lookAt(audio) : "no such file, neither from the working directory nor beside the manifest";
        if (typeof lastSize === "number") result.bytes += 3 * 512 + paddedSize(lastSize);
      }
      if (typeof lastSize === "string") result.bad.push({ row: i, why: `${at}: ${audio}: ${lastSize}` });
      const base = hashText(withoutSubMark(flattenPath(audio).base));
      const path = hashText(audio);
      result.hashes.set([base.high, base.low, path.high, path.low], i * 4);
    }
  } finally {
    reader.close();
  }
  return result;
}

/** Names that more than one path flattens to: which paths keep the name, and which get one of their own. 20 bytes a name. */
export class NameTable {
  private readonly names = new HashTable();
  /** By the name's number: its first path, as 53 bits of the hash. */
  private readonly owners = new NumberList();
  private readonly moved = new Set<string>();

  /** Takes the hashes of entries in the order of the manifest: the first path that has a name keeps it. */
  add(hashes: Uint32Array): void {
    for (let i = 0; i < hashes.length; i += 4) {
      const high = hashes[i + 2] as number;
      const low = hashes[i + 3] as number;
      const path = (high >>> 11) * 2 ** 32 + low;
      const known = this.names.size;
      const number = this.names.add(hashes[i] as number, hashes[i + 1] as number);
      if (number === known) this.owners.push(path);
      else if (this.owners.get(number) !== path) this.moved.add(`${high}:${low}`);
    }
  }

  /** Paths (`pathKey`) that get a name of their own. */
  get distinct(): string[] {
    return [...this.moved].sort();
  }
}

/** @returns a path's key in `NameTable.distinct` */
export function pathKey(path: string): string {
  const { high, low } = hashText(path);
  return `${high}:${low}`;
}
