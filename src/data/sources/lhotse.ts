/** lhotse's manifests of cuts as sources. */

import type { LineFormat, ParsedLine } from "../lineIndex/index.ts";
import type { SourceCut } from "./cut.ts";
import { formatKey, type Leaf, type LeafOptions, refusalOf } from "./leaf.ts";
import { LeafBuilder } from "./leafBuilder.ts";
import { parseLhotseCut } from "./lhotseCut.ts";

/** The text and the language under the keys that the config names, which cuts keep in `custom` where they are not lhotse's own. */
export function withFields(cut: SourceCut, { textField, langField }: LeafOptions): SourceCut {
  if (textField === "text" && langField === "lang") return cut;
  const find = (key: string): string | undefined => {
    const value = cut.custom[key] ?? cut.supervisions.find(({ custom }) => custom[key] !== undefined)?.custom[key];
    return typeof value === "string" ? value : undefined;
  };
  return { ...cut, text: textField === "text" ? cut.text : (find(textField) ?? ""), lang: langField === "lang" ? cut.lang : (find(langField) ?? cut.lang) };
}

/** The lines of manifests of cuts: each is read as a whole, so that what is wrong with it is told when the manifest is indexed. */
export function cutFormat(options: LeafOptions): LineFormat {
  const cutOf = ({ value, path, line }: ParsedLine): SourceCut => withFields(parseLhotseCut(value, `${path}:${line}`), options);
  return {
    key: formatKey("cuts", options),
    countsTokens: options.countTokens !== undefined,
    figures: (line) => {
      const cut = cutOf(line);
      const reason = refusalOf(cut, options);
      return reason === undefined ? { duration: cut.duration, tokens: options.countTokens?.(cut.text, cut.lang) ?? 0 } : { reason };
    },
    duration: (value, at) => (typeof value["duration"] === "number" ? value["duration"] : parseLhotseCut(value, at).duration),
  };
}

/** Manifests of cuts, plain or gzip. @throws ManifestError CUT_BAD, FEATURES_BAD, FEATURES_STORAGE at file:line; SOURCE_EMPTY; FormatError of reading */
export async function lhotseLeaf({ cuts, at }: { cuts: readonly string[]; at: string }, options: LeafOptions): Promise<Leaf> {
  const builder = new LeafBuilder(options);
  const { lines, rows: kept } = await builder.acceptManifests(cuts, cutFormat(options));
  return builder.build({
    name: cuts.length === 1 ? (cuts[0] as string) : `${cuts[0]} and ${cuts.length - 1} more`,
    at,
    kind: "lhotse",
    load: async (rows) =>
      (await lines.read(Array.from(rows, (row) => kept[row] as number))).map(({ value, path, line }) =>
        builder.finish(withFields(parseLhotseCut(value, `${path}:${line}`, path), options), line),
      ),
    where: (row) => lines.where(kept[row] as number),
    fingerprint: () => lines.fingerprint(),
  });
}
