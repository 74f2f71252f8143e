/** The transcripts of manifests, of which the audio is neither read nor needed. */
import { plainText, readAll } from "./cuts.ts";
import { parseEntry } from "./entry.ts";
import type { ManifestSpec } from "./inputs.ts";
import { audioKeys, firstKey } from "./keys.ts";
import type { LineError, ManifestObject } from "./lines.ts";

/** What lhotse appends to the ids of copies: of other speed, tempo or volume, or with reverberation. Source: lhotse, cut/data.py, perturb_speed. */
const copied = /(?:_(?:sp|tp|vp)\d+(?:\.\d+)?|_rvb)+$/;

interface Said {
  /** "" where a line names none. */
  id: string;
  text: string;
}

export interface ManifestTexts {
  /** One an utterance, in the order of the lines. */
  texts: string[];
  /** Copies that lhotse made of utterances whose text is there already. */
  copies: number;
}

const isObject = (value: unknown): value is ManifestObject => typeof value === "object" && value !== null && !Array.isArray(value);
const objectsOf = (value: unknown): ManifestObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

/** The texts of a cut of lhotse's, whatever its audio is: those of its supervisions, and of the tracks of a mixture. */
function textsOfCut(value: ManifestObject): string[] {
  const own = objectsOf(value["supervisions"]).flatMap(({ text }) => (typeof text === "string" && text !== "" ? [text] : []));
  return [...own, ...objectsOf(value["tracks"]).flatMap(({ cut }) => (isObject(cut) ? textsOfCut(cut) : []))];
}

const isCut = (value: ManifestObject): boolean => firstKey(value, audioKeys) === undefined && ["recording", "supervisions", "tracks"].some((key) => value[key] !== undefined);

/**
 * Loads the transcripts of manifests, NeMo's or lhotse's cuts. Of an utterance and its copies at other speeds, which icefall's recipes store side by side,
 * the text comes once.
 * @throws ManifestError MANIFEST_EMPTY when no line can be used
 */
export async function loadTexts(spec: ManifestSpec, { onError }: { onError?: (error: LineError) => void } = {}): Promise<ManifestTexts> {
  const all = await readAll(spec, onError, (line): Said => {
    const { value } = line;
    if (!isCut(value)) return { id: "", text: plainText(parseEntry(line, { needDuration: false }).text) };
    return { id: typeof value["id"] === "string" ? value["id"] : "", text: textsOfCut(value).join(" ") };
  });
  const known = new Set(all.filter(({ id }) => id !== "" && !copied.test(id)).map(({ id, text }) => `${id}\n${text}`));
  const texts: string[] = [];
  for (const { id, text } of all) {
    if (copied.test(id)) {
      const original = `${id.replace(copied, "")}\n${text}`;
      if (known.has(original)) continue;
      known.add(original); // the first copy stands for an utterance that is not there
    }
    texts.push(text);
  }
  return { texts, copies: all.length - texts.length };
}
