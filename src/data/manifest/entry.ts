/** A line of a NeMo manifest with its keys under one name each, checked; what NeMo does not know is kept. Source: NeMo, manifest.py __parse_item. */
import { readFileSync } from "node:fs";
import { fileError } from "../../formats/atomic.ts";
import { ManifestError } from "../../util/errors.ts";
import { type CanarySlots, type CanaryVersion, canaryVersionOf, isCanary, readCanary } from "./canary.ts";
import type { ManifestSpec } from "./inputs.ts";
import { audioKeys, featureKeys, firstKey, isSpans, rttmKeys, type TextSpan, videoKeys } from "./keys.ts";
import { type LineError, type ManifestLine, type ManifestObject, readManifestLines } from "./lines.ts";
import { resolveAudioPath } from "./paths.ts";

/** An utterance as the manifest has it. Times are seconds; paths are as written. */
export interface ManifestEntry {
  /** One path, or one for each channel. */
  audioFile: string | readonly string[] | undefined;
  videoFile: string | undefined;
  /** Undefined where there is none and `needDuration` is false. */
  duration: number | undefined;
  offset: number | undefined;
  /** "" where there is none; spans for aggregate tokenizers. */
  text: string | readonly TextSpan[];
  speaker: string | undefined;
  lang: string | undefined;
  origSr: number | undefined;
  samplingRate: number | undefined;
  /** Tokens that stand in for the text. */
  tokenLabels: readonly unknown[] | undefined;
  rttmFile: string | undefined;
  featureFile: string | undefined;
  context: unknown;
  contextType: unknown;
  contextDuration: unknown;
  answer: unknown;
  answerType: unknown;
  answerDuration: unknown;
  question: unknown;
  questionType: unknown;
  task: unknown;
  id: string | undefined;
  shardId: number | undefined;
  predText: string | undefined;
  /** The slots of Canary's prompt, normalised and with defaults; undefined where they were not asked for, or the line has none of their keys. */
  canary: CanarySlots | undefined;
  /** Every key that is none of the above, as it is. */
  rest: ManifestObject;
  /** The whole line, as it is. */
  value: ManifestObject;
  /** Where the manifest has it: "train.jsonl:17". */
  origin: string;
  manifest: string;
}

/** How to read entries. */
export interface EntryOptions {
  /** Called with each line that cannot be used, which is then left out. Without it the first one throws. */
  onError?: (error: LineError) => void;
  /** False for manifests to decode: lines may have no duration. */
  needDuration?: boolean;
  /** False for manifests of texts without audio (`tts_text`, conversations). */
  needAudio?: boolean;
  /** True to get lines that `_skipme` leaves out. */
  keepSkipped?: boolean;
  /** Reads the slots of Canary's prompt: of every line, or with "auto" of lines that have their keys, of the version that they were written for. */
  canary?: CanaryVersion | "auto";
}

const known = new Set<string>([
  ...audioKeys,
  ...videoKeys,
  ...rttmKeys,
  ...featureKeys,
  ..."duration offset text text_filepath normalized_text speaker lang orig_sample_rate sampling_rate sample_rate token_labels".split(" "),
  ..."context context_type context_duration answer answer_type answer_duration question question_type task id shard_id pred_text _skipme".split(" "),
]);

const show = (value: unknown): string => (JSON.stringify(value) ?? String(value)).slice(0, 40);
const optionalString = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const optionalNumber = (value: unknown): number | undefined => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

/** True where the line asks to be left out, itself or in the `custom` that lhotse's cuts bring. */
export function isSkipped(object: ManifestObject): boolean {
  const custom = object["custom"];
  return Boolean(object["_skipme"]) || (typeof custom === "object" && custom !== null && Boolean((custom as ManifestObject)["_skipme"]));
}

function audioFileOf(object: ManifestObject, at: string): string | readonly string[] {
  const key = firstKey(object, audioKeys);
  const value = key === undefined ? undefined : object[key];
  if (typeof value === "string" && value !== "") return value;
  if (Array.isArray(value) && value.length > 0 && value.every((path) => typeof path === "string" && path !== "")) return value as string[];
  const lhotse = object["recording"] !== undefined || object["supervisions"] !== undefined;
  throw new ManifestError("MANIFEST_NO_AUDIO", {
    at,
    message: lhotse ? 'no "audio_filepath": this is a cut of lhotse' : key === undefined ? 'no "audio_filepath"' : `"${key}" is not a path`,
    fix: lhotse ? "convert it: serac manifest convert CUTS.jsonl.gz OUT.jsonl" : "give the path of the audio, absolute or relative to the manifest",
  });
}

function timesOf(object: ManifestObject, at: string, needDuration: boolean): Pick<ManifestEntry, "duration" | "offset"> {
  const duration = object["duration"] ?? object["context_duration"];
  const offset = object["offset"];
  if (duration === undefined || duration === null) {
    if (needDuration)
      throw new ManifestError("MANIFEST_NO_DURATION", {
        at,
        message: 'no "duration"',
        fix: "add the length in seconds, for instance: serac manifest check --fix OUT.jsonl MANIFEST",
      });
  } else if (typeof duration !== "number" || !Number.isFinite(duration) || duration <= 0) {
    throw new ManifestError("MANIFEST_BAD_DURATION", {
      at,
      message: `"duration" is ${show(duration)}, expected seconds above 0`,
      fix: "give the length in seconds as a number",
    });
  }
  if (offset !== undefined && offset !== null && (typeof offset !== "number" || !Number.isFinite(offset) || offset < 0))
    throw new ManifestError("MANIFEST_BAD_OFFSET", { at, message: `"offset" is ${show(offset)}, expected seconds from 0`, fix: "give the start in seconds as a number" });
  return { duration: optionalNumber(duration), offset: optionalNumber(offset) };
}

function textFrom(object: ManifestObject, at: string, manifest: string): string | readonly TextSpan[] {
  const { text, text_filepath: path, normalized_text: normalized } = object;
  if (text !== undefined && text !== null) {
    if (typeof text === "string" || isSpans(text)) return text;
    throw new ManifestError("MANIFEST_BAD_TEXT", { at, message: `"text" is ${show(text)}, expected a string`, fix: "write the transcript as a string" });
  }
  if (typeof path === "string" && path !== "") {
    const { path: file } = resolveAudioPath(path, manifest);
    try {
      // NeMo only takes line feeds away, which joins the words on both sides.
      return readFileSync(file, "utf8")
        .split("\n")
        .map((line) => line.trim())
        .filter((line) => line !== "")
        .join(" ");
    } catch (error) {
      const { message, code } = fileError(file, "read", error);
      throw new ManifestError("MANIFEST_BAD_TEXT", { at, message: `"text_filepath": ${message}`.replace(` [${code}]`, ""), fix: "give the path of a text file", cause: error });
    }
  }
  return typeof normalized === "string" ? normalized : "";
}

function canaryOf(object: ManifestObject, at: string, version: EntryOptions["canary"]): CanarySlots | undefined {
  if (version === undefined || (version === "auto" && !isCanary(object))) return undefined;
  return readCanary(object, { at, version: version === "auto" ? canaryVersionOf(object) : version });
}

/**
 * Reads one line's object.
 * @param at file:line, for errors
 * @throws ManifestError MANIFEST_NO_AUDIO, MANIFEST_NO_DURATION, MANIFEST_BAD_DURATION, MANIFEST_BAD_OFFSET, MANIFEST_BAD_TEXT, CANARY_BAD_SLOT
 */
export function parseEntry(
  { value, line, path }: Pick<ManifestLine, "value" | "line" | "path">,
  { needDuration = true, needAudio = true, canary }: EntryOptions = {},
): ManifestEntry {
  const at = `${path}:${line}`;
  const audioFile = needAudio || firstKey(value, audioKeys) !== undefined ? audioFileOf(value, at) : undefined;
  const times = timesOf(value, at, needDuration);
  const text = textFrom(value, at, path);
  const named = (keys: readonly string[]): string | undefined => {
    const key = firstKey(value, keys);
    return key === undefined ? undefined : optionalString(value[key]);
  };
  const { speaker, id } = value;
  const rest: ManifestObject = {};
  for (const key of Object.keys(value)) if (!known.has(key)) rest[key] = value[key];
  return {
    audioFile,
    videoFile: named(videoKeys),
    ...times,
    text,
    speaker: typeof speaker === "string" || typeof speaker === "number" ? String(speaker) : undefined,
    lang: optionalString(value["lang"]),
    origSr: optionalNumber(value["orig_sample_rate"]),
    samplingRate: optionalNumber(value["sampling_rate"] ?? value["sample_rate"]),
    tokenLabels: Array.isArray(value["token_labels"]) ? value["token_labels"] : undefined,
    rttmFile: named(rttmKeys),
    featureFile: named(featureKeys),
    context: value["context"],
    contextType: value["context_type"],
    contextDuration: value["context_duration"],
    answer: value["answer"],
    answerType: value["answer_type"],
    answerDuration: value["answer_duration"],
    question: value["question"],
    questionType: value["question_type"],
    task: value["task"],
    id: typeof id === "string" || typeof id === "number" ? String(id) : undefined,
    shardId: optionalNumber(value["shard_id"]),
    predText: optionalString(value["pred_text"]),
    canary: canaryOf(value, at, canary),
    rest,
    value,
    origin: at,
    manifest: path,
  };
}

/**
 * The utterances of manifests, one by one; lines with `_skipme` are left out.
 * @throws ManifestError MANIFEST_* and FormatError at file:line:column, unless `onError` takes them
 */
export async function* readEntries(spec: ManifestSpec, options: EntryOptions = {}): AsyncGenerator<ManifestEntry> {
  const { onError, keepSkipped = false } = options;
  for await (const line of readManifestLines(spec, onError ? { onError } : {})) {
    if (!keepSkipped && isSkipped(line.value)) continue;
    let entry: ManifestEntry;
    try {
      entry = parseEntry(line, options);
    } catch (error) {
      if (!onError || !(error instanceof ManifestError)) throw error;
      onError(error);
      continue;
    }
    yield entry;
  }
}
