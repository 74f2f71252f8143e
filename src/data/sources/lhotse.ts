/** lhotse's manifests of cuts as sources. */
import type { SourceCut } from "./cut.ts";
import { type Leaf, LeafBuilder, type LeafOptions } from "./leaf.ts";
import { parseLhotseCut } from "./lhotseCut.ts";
import { LineTable } from "./lineTable.ts";

/** The text and the language under the keys that the config names, which cuts keep in `custom` where they are not lhotse's own. */
export function withFields(cut: SourceCut, { textField, langField }: LeafOptions): SourceCut {
  if (textField === "text" && langField === "lang") return cut;
  const find = (key: string): string | undefined => {
    const value = cut.custom[key] ?? cut.supervisions.find(({ custom }) => custom[key] !== undefined)?.custom[key];
    return typeof value === "string" ? value : undefined;
  };
  return { ...cut, text: textField === "text" ? cut.text : (find(textField) ?? ""), lang: langField === "lang" ? cut.lang : (find(langField) ?? cut.lang) };
}

/** Manifests of cuts, plain or gzip. @throws ManifestError CUT_BAD, FEATURES_BAD, FEATURES_STORAGE at file:line; SOURCE_EMPTY; FormatError of reading */
export async function lhotseLeaf({ cuts, at }: { cuts: readonly string[]; at: string }, options: LeafOptions): Promise<Leaf> {
  const builder = new LeafBuilder(options);
  const table = await LineTable.read(cuts, {
    accept: ({ value, at: place }) => {
      const cut = withFields(parseLhotseCut(value, place), options);
      return builder.accept(cut) ? cut.duration : undefined;
    },
    onError: (error) => builder.bad(error),
    onProgress: options.onProgress,
  });
  return builder.build({
    name: cuts.length === 1 ? (cuts[0] as string) : `${cuts[0]} and ${cuts.length - 1} more`,
    at,
    kind: "lhotse",
    load: async (rows) => (await table.load(rows)).map(({ value, at: place, path }) => builder.finish(withFields(parseLhotseCut(value, place, path), options))),
    where: (row) => table.where(row),
    fingerprint: () => table.fingerprint(),
  });
}
