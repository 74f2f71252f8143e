/** NeMo's manifests as sources. */
import { ManifestError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { type LineFormat, lineDuration, type ParsedLine } from "../lineIndex/index.ts";
import { cutOf } from "../manifest/cuts.ts";
import { type ManifestEntry, parseEntry } from "../manifest/entry.ts";
import type { ManifestObject } from "../manifest/lines.ts";
import type { SourceCut } from "./cut.ts";
import { formatKey, type Leaf, type LeafOptions, refusalOf } from "./leaf.ts";
import { LeafBuilder } from "./leafBuilder.ts";

/** Keys that a cut has a place for; the others, text and language included, go to `custom`, as in NeMo's reader. */
const consumed = new Set(["audio_filepath", "audio_filename", "audio_file", "duration", "offset", "sampling_rate", "sample_rate"]);

function customOf(value: ManifestObject): Record<string, unknown> {
  const custom: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(value)) if (!consumed.has(key)) custom[key] = one;
  const inner = value["custom"];
  if (typeof inner === "object" && inner !== null && (inner as ManifestObject)["_skipme"]) custom["_skipme"] = true;
  return custom;
}

/** The text and the language under the keys that the config names. */
function spoken(value: ManifestObject, entry: ManifestEntry | undefined, { textField, langField }: LeafOptions, at: string): { text: string; lang: string | undefined } {
  const lang = value[langField];
  let text = textField === "text" && entry ? entry.text : value[textField];
  if (Array.isArray(text)) text = text.map((span: { str?: unknown }) => String(span.str ?? "")).join(" ");
  if (text !== undefined && text !== null && typeof text !== "string")
    throw new ManifestError("MANIFEST_BAD_TEXT", {
      at,
      message: `"${textField}" is ${JSON.stringify(text).slice(0, 40)}, expected a string`,
      fix: "write the transcript as a string",
    });
  return { text: text ?? "", lang: typeof lang === "string" ? lang : undefined };
}

/** A cut of a line; what the line says beyond a cut is in `custom`. @param entry the line, checked; undefined takes the text as it stands */
export function sourceCut(cut: Cut, value: ManifestObject, entry: ManifestEntry | undefined, options: LeafOptions): SourceCut {
  const { text, lang } = spoken(value, entry, options, cut.origin);
  const rate = value["sampling_rate"] ?? value["sample_rate"];
  const { id, duration, speaker } = cut;
  return {
    ...cut,
    text,
    lang,
    features: undefined,
    supervisions: [{ id, start: 0, duration, text, language: lang, speaker, custom: {}, alignment: undefined }],
    sampleRate: typeof rate === "number" ? rate : undefined,
    channel: undefined,
    custom: customOf(value),
  };
}

/** The lines of NeMo's manifests. What is wrong with a line is told when its manifest is indexed. */
function nemoFormat(options: LeafOptions): LineFormat {
  return {
    key: formatKey("nemo", options),
    countsTokens: options.countTokens !== undefined,
    figures: (line) => {
      const { value } = line;
      const at = `${line.path}:${line.line}`;
      if (value["recording"] !== undefined && value["type"] !== undefined)
        throw new ManifestError("MANIFEST_NO_AUDIO", { at, message: "this is a cut of lhotse, not a line of a NeMo manifest", fix: "use type: lhotse with cuts_path" });
      const entry = parseEntry(line);
      if (typeof entry.audioFile !== "string") cutOf(entry); // says what is wrong
      const { text, lang } = spoken(value, entry, options, at);
      const duration = entry.duration as number;
      const reason = refusalOf({ custom: customOf(value), supervisions: [], speaker: entry.speaker, duration, text, lang }, options);
      return reason === undefined ? { duration, tokens: options.countTokens?.(text, lang) ?? 0 } : { reason };
    },
    duration: lineDuration,
  };
}

/** A manifest, or several one after another. @throws ManifestError at file:line; SOURCE_EMPTY; FormatError of reading */
export async function nemoLeaf({ manifests, at }: { manifests: readonly string[]; at: string }, options: LeafOptions): Promise<Leaf> {
  const builder = new LeafBuilder(options);
  const { lines, rows: kept } = await builder.acceptManifests(manifests, nemoFormat(options));
  const cutOfLine = (line: ParsedLine): SourceCut => {
    const entry = parseEntry(line);
    return builder.finish(sourceCut(cutOf(entry), line.value, entry, options), line.line);
  };
  return builder.build({
    name: manifests.length === 1 ? (manifests[0] as string) : `${manifests[0]} and ${manifests.length - 1} more`,
    at,
    kind: "nemo",
    load: async (rows) => (await lines.read(Array.from(rows, (row) => kept[row] as number))).map(cutOfLine),
    where: (row) => lines.where(kept[row] as number),
    fingerprint: () => lines.fingerprint(),
  });
}
