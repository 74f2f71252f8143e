/** Builds the index of a manifest in one pass over its bytes. Of packed manifests, whose lines cannot be found again on disk, the texts are kept too. */
import { createHash } from "node:crypto";
import { FormatError, ManifestError } from "../../util/errors.ts";
import { NumberList } from "../../util/hash.ts";
import { type LineError, LineReader } from "../manifest/lines.ts";
import type { LineFormat } from "./format.ts";
import { PackedTexts } from "./packedTexts.ts";

/** What is known of a manifest's lines. Columns are of the lines that can be used, in order. */
export interface LineIndex {
  path: string;
  /** SHA-256 of the manifest, unpacked, in hexadecimal. */
  digest: string;
  /** Bytes of the manifest, unpacked. */
  size: number;
  /** Where each line begins. */
  offsets: Float64Array;
  /** Seconds. */
  durations: Float64Array;
  /** Counted from 1. */
  lines: Float64Array;
  /** Tokens of each line, where the format counts them. */
  tokens: Float64Array | undefined;
  /** Lines that are not wanted: why, how many, and the number of the first of them. */
  unwanted: readonly (readonly [reason: string, count: number, first: number])[];
  /** What is wrong with lines that cannot be used. */
  errors: readonly LineError[];
  /** The lines of a packed manifest. */
  texts: PackedTexts | undefined;
}

/** How to build. */
export interface BuildOptions {
  /** Called with each line that cannot be used, which is then left out. Without it the first one throws. */
  onError?: ((error: LineError) => void) | undefined;
  /** Told how many lines were read. */
  onProgress?: ((lines: number) => void) | undefined;
}

/** Takes a manifest's bytes, chunk after chunk. */
export class IndexBuilder {
  private readonly path: string;
  private readonly format: LineFormat;
  private readonly options: BuildOptions;
  private readonly hash = createHash("sha256");
  private readonly offsets = new NumberList();
  private readonly durations = new NumberList();
  private readonly lines = new NumberList();
  private readonly tokens = new NumberList();
  private readonly errors: LineError[] = [];
  private readonly texts: PackedTexts | undefined;
  private readonly unwanted = new Map<string, { count: number; first: number }>();
  private readonly reader: LineReader;
  /** Of the first byte of the line that is looked at. */
  private offset = 0;
  private line = 0;
  private rest: Buffer[] = [];

  /** @param packed keeps the lines' texts */
  constructor(path: string, format: LineFormat, packed: boolean, options: BuildOptions) {
    this.path = path;
    this.format = format;
    this.options = options;
    this.texts = packed ? new PackedTexts() : undefined;
    this.reader = new LineReader(
      path,
      (value, text, line) => this.look(value, text, line),
      (error) => this.bad(error),
    );
  }

  /** Takes further bytes; the chunk may be used again. @throws what is wrong with a line, where nobody takes errors */
  push(chunk: Buffer): void {
    this.hash.update(chunk);
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, start)) {
      let line: Buffer = chunk.subarray(start, end + 1);
      if (this.rest.length > 0) {
        line = Buffer.concat([...this.rest, line]);
        this.rest = [];
      }
      start = end + 1;
      this.take(line, chunk.subarray(start));
    }
    if (start < chunk.length) this.rest.push(Buffer.from(chunk.subarray(start)));
    this.options.onProgress?.(this.line);
  }

  private take(line: Buffer, behind?: Buffer): void {
    this.line++;
    this.reader.read(line, behind);
    this.offset += line.length;
  }

  private look(value: Record<string, unknown>, text: string, line: number): void {
    let figures: ReturnType<LineFormat["figures"]>;
    try {
      figures = this.format.figures({ value, line, path: this.path });
    } catch (error) {
      if (!(error instanceof FormatError || error instanceof ManifestError)) throw error;
      this.bad(error);
      return;
    }
    if (!figures) return;
    if ("reason" in figures) {
      const known = this.unwanted.get(figures.reason);
      if (known) known.count++;
      else this.unwanted.set(figures.reason, { count: 1, first: line });
      return;
    }
    const { duration, tokens } = figures;
    this.offsets.push(this.offset);
    this.durations.push(duration);
    this.lines.push(line);
    if (this.format.countsTokens) this.tokens.push(tokens);
    this.texts?.push(text);
  }

  private bad(error: LineError): void {
    if (!this.options.onError) throw error;
    this.errors.push(error);
    this.options.onError(error);
  }

  /** The index of what was taken. @throws what is wrong with the last line, where nobody takes errors */
  finish(): LineIndex {
    if (this.rest.length > 0) this.take(Buffer.concat(this.rest));
    return {
      path: this.path,
      digest: this.hash.digest("hex"),
      size: this.offset,
      offsets: this.offsets.take(),
      durations: this.durations.take(),
      lines: this.lines.take(),
      tokens: this.format.countsTokens ? this.tokens.take() : undefined,
      unwanted: Array.from(this.unwanted, ([reason, { count, first }]) => [reason, count, first] as const),
      errors: this.errors,
      texts: this.texts,
    };
  }
}
