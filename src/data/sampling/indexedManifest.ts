/** Manifests whose lines are found by an index: a sampler looks at durations alone, and only the lines of a batch are ever parsed. */
import type { Cut } from "../cut.ts";
import { anyFormat, IndexedLines, type OpenIndexOptions, openLineIndex, type ParsedLine, type TokenCounter } from "../lineIndex/index.ts";
import { cutOf } from "../manifest/cuts.ts";
import { parseEntry } from "../manifest/entry.ts";
import { type ManifestSpec, manifestPaths } from "../manifest/inputs.ts";
import { ColumnSource } from "./columnSource.ts";

/** How lines become items. */
export interface LineOptions<T> {
  /** Makes an item of a line that has a `duration`; a cut of a NeMo manifest's line by default. */
  parse?: (line: ParsedLine) => T;
}

/** How to open manifests. */
export interface IndexedOptions extends Omit<OpenIndexOptions, "keepFrom"> {
  tokens?: TokenCounter | undefined;
}

/** A line of a NeMo manifest as a cut. */
export const parseCut = (line: ParsedLine): Cut => cutOf(parseEntry(line));

/**
 * A source over plain JSON lines, each with a `duration`: manifests of NeMo, or with `parse` cuts of lhotse. Indexes are kept beside the manifests.
 * @throws what `openLineIndex` throws
 */
export function indexedManifest(spec: ManifestSpec, options?: IndexedOptions): ColumnSource<Cut>;
export function indexedManifest<T>(spec: ManifestSpec, options: IndexedOptions & Required<LineOptions<T>>): ColumnSource<T>;
export function indexedManifest<T>(spec: ManifestSpec, { parse = parseCut as (line: ParsedLine) => T, tokens, ...options }: IndexedOptions & LineOptions<T> = {}): ColumnSource<T> {
  const format = anyFormat(tokens);
  const parts = manifestPaths(spec).map((path) => openLineIndex(path, format, options));
  const lines = new IndexedLines(parts, format);
  return new ColumnSource<T>({
    name: parts.map(({ path }) => path).join(", "),
    durations: lines.durations,
    tokens: lines.tokens,
    load: async (rows) => (await lines.read(rows)).map(parse),
    where: (row) => lines.where(row),
    fingerprint: () => lines.fingerprint(),
  });
}
