/**
 * Utterances of tars in little memory, and on disk: where their members lie, and, packed, what their manifests say. About sixty bytes each, beside figures.
 */
import { createHash } from "node:crypto";
import { SeracError } from "../../util/errors.ts";
import { NumberList } from "../../util/hash.ts";
import { type FileIdentity, identityOf, isClearlyYounger, PackedTexts, readColumns, writeColumns } from "../lineIndex/index.ts";
import { makeCut } from "../manifest/cuts.ts";
import { parseEntry } from "../manifest/entry.ts";
import type { ManifestObject } from "../manifest/lines.ts";
import type { TarredItem } from "../tarred/opened.ts";
import type { SourceCut } from "./cut.ts";
import type { LeafOptions } from "./leaf.ts";
import { sourceCut } from "./nemo.ts";

/** The member's name, the manifest, the number of the line, and the line. */
type Said = readonly [name: string, manifest: string, line: number, value: ManifestObject];

/** What opening found beside the utterances. */
export interface TarredFindings {
  /** Of each shard: its tar, and how many utterances it has. */
  shards: [path: string, utterances: number][];
  /** Why something was left out, how often, and the first example. */
  leftOut: [reason: string, count: number, example: string][];
  /** What a person was told. */
  warnings: string[];
}

const version = 1;

/** Utterances by number, with their seconds and tokens. */
export class TarredRows {
  private readonly tars: string[];
  private readonly tarOf: NumberList | Float64Array;
  private readonly offsets: NumberList | Float64Array;
  private readonly sizes: NumberList | Float64Array;
  private readonly durations: NumberList | Float64Array;
  private readonly tokens: NumberList | Float64Array;
  private readonly said: PackedTexts;
  private readonly hash = createHash("sha256");
  private known: string | undefined;

  private constructor(tars: string[], columns: readonly (NumberList | Float64Array)[], said: PackedTexts, known?: string) {
    this.tars = tars;
    [this.tarOf, this.offsets, this.sizes, this.durations, this.tokens] = columns as [NumberList, NumberList, NumberList, NumberList, NumberList];
    this.said = said;
    this.known = known;
  }

  static empty(): TarredRows {
    return new TarredRows([], [new NumberList(Uint32Array), new NumberList(), new NumberList(), new NumberList(), new NumberList()], new PackedTexts());
  }

  get length(): number {
    return this.said.length;
  }

  /** Adds an utterance to an empty list, or one that grows. */
  push({ cut: { member, origin, audioPath, duration }, value }: TarredItem, tokens: number): void {
    const add = (column: NumberList | Float64Array, number: number): void => (column as NumberList).push(number);
    if (this.tars.at(-1) !== audioPath) this.tars.push(audioPath);
    add(this.tarOf, this.tars.length - 1);
    add(this.offsets, member?.offset ?? 0);
    add(this.sizes, member?.size ?? 0);
    add(this.durations, duration);
    add(this.tokens, tokens);
    const colon = origin.lastIndexOf(":");
    const text = JSON.stringify([member?.name ?? "", origin.slice(0, colon), Number(origin.slice(colon + 1)), value] satisfies Said);
    this.hash.update(text);
    this.said.push(text);
  }

  duration(row: number): number {
    return at(this.durations, row);
  }

  tokensOf(row: number): number {
    return at(this.tokens, row);
  }

  private saidOf(row: number): Said {
    return JSON.parse(this.said.at(row)) as Said;
  }

  /** "manifest_3.json:17" */
  where(row: number): string {
    const [, manifest, line] = this.saidOf(row);
    return `${manifest}:${line}`;
  }

  /** Changes with any entry; call it once all are there. */
  fingerprint(): string {
    this.known ??= this.hash.digest("hex");
    return this.known;
  }

  cut(row: number, options: LeafOptions): SourceCut {
    const [name, path, line, value] = this.saidOf(row);
    const entry = parseEntry({ value, line, path }, { needDuration: false });
    const member = { name, offset: at(this.offsets, row), size: at(this.sizes, row) };
    return sourceCut(makeCut(entry, name, { audioPath: this.tars[at(this.tarOf, row)] as string, member }), value, undefined, options);
  }

  /** Keeps them in a file for the next start. @param files what they were made of @throws FormatError FILE_UNWRITABLE */
  save(file: string, files: readonly string[], findings: TarredFindings): void {
    const { bytes, sizes } = this.said.save();
    const columns = [this.tarOf, this.offsets, this.sizes, this.durations, this.tokens].map((column) => Float64Array.from({ length: this.length }, (_, row) => at(column, row)));
    const identities = files.map((path) => [path, identityOf(path)] as const);
    writeColumns(file, { header: { version, files: identities, tars: this.tars, texts: sizes, fingerprint: this.fingerprint(), findings }, columns, tail: bytes });
  }

  /** What `save` kept, where it is there and all files are what they were. */
  static load(file: string, files: readonly string[]): { rows: TarredRows; findings: TarredFindings } | undefined {
    const kept = readColumns(file);
    if (!kept || kept.header["version"] !== version || kept.columns.length !== 5) return undefined;
    const header = kept.header as unknown as { files: [string, FileIdentity][]; tars: string[]; texts: number[]; fingerprint: string; findings: TarredFindings };
    if (header.files.length !== files.length) return undefined;
    try {
      const own = identityOf(file);
      for (const [i, [path, was]] of header.files.entries()) {
        const now = identityOf(path);
        if (path !== files[i] || now.size !== was.size || now.mtime !== was.mtime || now.ctime !== was.ctime || !isClearlyYounger(own, now)) return undefined;
      }
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      return undefined; // opening says what is missing
    }
    const said = PackedTexts.from({ bytes: kept.tail ?? new Uint8Array(0), sizes: header.texts }, kept.columns[0]?.length ?? 0);
    return { rows: new TarredRows(header.tars, kept.columns, said, header.fingerprint), findings: header.findings };
  }
}

const at = (column: NumberList | Float64Array, row: number): number => (column instanceof NumberList ? column.get(row) : (column[row] as number));
