/**
 * Utterances to and from lhotse's cuts. What a cut has no place for stands in its `custom`, as NeMo's own readers put it there.
 * Source: lhotse, cut/mono.py, audio/recording.py, supervision.py; NeMo, nemo_adapters.py.
 */
import { resolve } from "node:path";
import { dumpPython, type PyObject, type PyValue, parsePython, pyFloat } from "../../../formats/pythonJson.ts";
import { readHeader } from "../check/headers.ts";
import { audioKeys } from "../keys.ts";
import { type ReadLinesOptions, readManifestLines } from "../lines.ts";
import { resolveAudioPath } from "../paths.ts";
import { derivedId, isText, type Losses, listOf, numberOf, objectOf, roundTime, sameValue, type Utterance } from "./common.ts";

const map = (entries: readonly (readonly [string, PyValue | undefined])[]): PyObject => new Map(entries.filter((entry): entry is [string, PyValue] => entry[1] !== undefined));

/** The key of the audio, and its paths. */
export function audioIn(object: PyObject): { key: string; files: string[] } | undefined {
  for (const key of audioKeys) {
    const value = object.get(key);
    if (isText(value) && value !== "") return { key, files: [value] };
    if (Array.isArray(value) && value.length > 0 && value.every(isText)) return { key, files: value as string[] };
  }
  return undefined;
}

/** An utterance as a cut, and where its audio lies. */
export interface CutOf {
  cut: PyObject;
  id: string;
  files: string[];
  start: number;
  duration: number;
  rate: number;
  /** Samples of the recording. */
  frames: number;
  channels: number;
}

/**
 * @param ids the ids that were given, to keep them different
 * @returns undefined where the audio cannot be read, which is counted
 */
export async function cutOfUtterance({ object, at, base }: Utterance, losses: Losses, ids: Set<string>): Promise<CutOf | undefined> {
  const audio = audioIn(object);
  if (audio === undefined) {
    losses.drop("lines without audio", at);
    return undefined;
  }
  const files = audio.files.map((file) => (base === undefined ? resolve(file) : resolveAudioPath(file, base).path));
  const headers = await Promise.all(files.map((file) => readHeader(file)));
  const [first] = headers;
  const failed = headers.find((header) => "failure" in header);
  if (first === undefined || "failure" in first || (failed !== undefined && "failure" in failed)) {
    losses.drop("audio that cannot be read", `${at}: ${failed && "failure" in failed ? failed.message : ""}`);
    return undefined;
  }
  const { rate, frames } = first;
  const real = frames / rate;
  const offset = numberOf(object.get("offset"));
  const start = offset ?? 0;
  const said = numberOf(object.get("duration"));
  // A cut may not pass the end of its recording; what the manifest said is kept in `custom` where that differs.
  const duration = Math.min(said ?? real - start, roundTime(real - start));
  const originalName = audio.files.join(",");
  const derived = derivedId(originalName, offset, said);
  const named = object.get("id");
  let id = isText(named) && named !== "" ? named : derived;
  if (ids.has(id)) {
    let number = 1;
    while (ids.has(`${id}_${number}`)) number++;
    id = `${id}_${number}`;
    losses.add("ids that were there already got a number", at);
  }
  ids.add(id);
  let channel = 0;
  const sources = files.map((source, i): PyObject => {
    const header = headers[i];
    const count = header === undefined || "failure" in header ? 1 : header.channels;
    return map([
      ["type", "file"],
      ["channels", Array.from({ length: count }, () => channel++)],
      ["source", source],
    ]);
  });
  const channelIds = Array.from({ length: channel }, (_, i) => i);
  const channels: PyValue = channel === 1 ? 0 : channelIds;
  const recordingId = originalName;
  const text = object.get("text");
  const lang = object.get("lang");
  const speaker = object.get("speaker");
  const custom: PyObject = new Map();
  for (const [key, value] of object) {
    if (key === audio.key && audio.key === "audio_filepath") continue;
    if (key === "duration" && sameValue(value, pyFloat(duration))) continue;
    if (key === "offset" && start > 0 && sameValue(value, pyFloat(start))) continue;
    if ((key === "text" || key === "lang" || key === "speaker" || key === "id") && isText(value)) continue;
    if (key === audio.key) continue; // an alias: read back under the main key
    custom.set(key, value);
  }
  if (audio.key !== "audio_filepath") losses.add(`"${audio.key}" becomes "audio_filepath"`, at);
  const hasSupervision = isText(text) || isText(lang) || isText(speaker);
  const supervision = map([
    ["id", id],
    ["recording_id", recordingId],
    ["start", pyFloat(0)],
    ["duration", pyFloat(duration)],
    ["channel", channels],
    ["text", isText(text) ? text : undefined],
    ["language", isText(lang) ? lang : undefined],
    ["speaker", isText(speaker) ? speaker : undefined],
  ]);
  const recording = map([
    ["id", recordingId],
    ["sources", sources],
    ["sampling_rate", rate],
    ["num_samples", frames],
    ["duration", pyFloat(real)],
    ["channel_ids", channelIds],
  ]);
  const cut = map([
    ["id", id],
    ["start", pyFloat(start)],
    ["duration", pyFloat(duration)],
    ["channel", channels],
    ["supervisions", hasSupervision ? [supervision] : []],
    ["recording", recording],
    ["custom", custom.size > 0 ? custom : undefined],
    ["type", channel === 1 ? "MonoCut" : "MultiCut"],
  ]);
  return { cut, id, files, start, duration, rate, frames, channels: channel };
}

/** How cuts become utterances: each as a whole with its texts joined, as NeMo reads them; or each supervision on its own. */
export type Segments = "cut" | "supervision";

/** What the audio of a cut is, or why it has none that a manifest can name. */
function sourceOf(recording: PyObject | undefined): { files: string[] } | { reason: string } {
  if (recording === undefined) return { reason: "cuts without a recording" };
  if (listOf(recording.get("transforms")).length > 0) return { reason: "recordings with transforms, which a manifest cannot apply" };
  const files: string[] = [];
  for (const source of listOf(recording.get("sources"))) {
    const object = objectOf(source);
    const type = object?.get("type");
    const path = object?.get("source");
    if ((type !== "file" && type !== "url") || !isText(path)) return { reason: `audio of the kind "${String(type)}"` };
    files.push(path);
  }
  return files.length === 0 ? { reason: "recordings without a source" } : { files };
}

/** The utterances of one cut. */
export function utterancesOfCut(cut: PyObject, at: string, segments: Segments, losses: Losses, files?: string[]): Utterance[] {
  const type = cut.get("type");
  if (type === "MixedCut" || type === "PaddingCut") {
    losses.drop(`${String(type)}s`, at);
    return [];
  }
  const recording = objectOf(cut.get("recording"));
  const source = files === undefined ? sourceOf(recording) : { files };
  if ("reason" in source) {
    losses.drop(source.reason, at);
    return [];
  }
  if (cut.has("features")) losses.add("features", at);
  const start = numberOf(cut.get("start")) ?? 0;
  const duration = numberOf(cut.get("duration")) ?? 0;
  const supervisions = listOf(cut.get("supervisions")).flatMap((one) => objectOf(one) ?? []);
  for (const supervision of supervisions) if (supervision.has("alignment")) losses.add("alignments", at);
  const custom = objectOf(cut.get("custom")) ?? new Map<string, PyValue>();
  const real = numberOf(recording?.get("duration"));
  const audio: PyValue = source.files.length === 1 ? (source.files[0] as string) : source.files;
  const id = cut.get("id");
  const channelIds = listOf(recording?.get("channel_ids"));
  const make = (from: number, length: PyValue, group: readonly PyObject[], name: PyValue | undefined): Utterance => {
    const object: PyObject = new Map<string, PyValue>([["audio_filepath", audio]]);
    object.set("duration", custom.get("duration") ?? length);
    // NeMo reads a line without offset to the end of the file, so that what ends clearly earlier needs one. Source of 0.2 s: its own tolerance.
    const endsEarlier = real !== undefined && (numberOf(object.get("duration")) ?? 0) < real - from - 0.2;
    const offset = custom.get("offset") ?? (from > 0 || endsEarlier ? pyFloat(from) : undefined);
    if (offset !== undefined) object.set("offset", offset);
    const texts = group.map((one) => one.get("text")).filter(isText);
    if (texts.length > 0) object.set("text", texts.join(" "));
    for (const [key, field] of [
      ["lang", "language"],
      ["speaker", "speaker"],
      ["gender", "gender"],
    ] as const) {
      const values = [...new Set(group.map((one) => one.get(field)).filter((value) => value !== undefined && value !== null))] as PyValue[];
      if (values.length > 0) object.set(key, values[0] as PyValue);
      if (values.length > 1) losses.add(`${field}s that differ within a cut`, at);
    }
    for (const one of group) for (const [key, value] of objectOf(one.get("custom")) ?? []) object.set(key, value);
    for (const [key, value] of custom) if (key !== "duration" && key !== "offset") object.set(key, value);
    if (channelIds.length > 1 && !Array.isArray(cut.get("channel"))) {
      object.set("channel", cut.get("channel") ?? 0);
      losses.add("the channel of a recording with several, which readers of NeMo choose by their own settings", at);
    }
    const path = Array.isArray(audio) ? source.files.join(",") : (audio as string);
    const usual = [
      derivedId(path, numberOf(object.get("offset")), numberOf(object.get("duration"))),
      derivedId(String(recording?.get("id")), numberOf(object.get("offset")), numberOf(object.get("duration"))),
    ];
    if (isText(name) && !usual.includes(name)) object.set("id", name);
    return { object, at, base: undefined };
  };
  if (segments === "supervision" && supervisions.length > 0)
    return supervisions.map((one) => make(roundTime(start + (numberOf(one.get("start")) ?? 0)), pyFloat(numberOf(one.get("duration")) ?? 0), [one], one.get("id")));
  if (supervisions.length > 1) losses.add("borders between the supervisions of a cut, whose texts were joined (--segments supervision keeps them)", at);
  const [only] = supervisions;
  if (supervisions.length === 1 && only !== undefined) {
    const inside = Math.abs(numberOf(only.get("start")) ?? 0) > 1e-3 || Math.abs((numberOf(only.get("duration")) ?? 0) - duration) > 1e-3;
    if (inside) losses.add("where in its cut a supervision lies (--segments supervision keeps it)", at);
  }
  return [make(start, cut.get("duration") ?? 0, supervisions, id)];
}

/** The utterances of a file of cuts. */
export async function* readCuts(path: string, segments: Segments, losses: Losses, options: ReadLinesOptions = {}): AsyncGenerator<Utterance> {
  for await (const { text, line, path: name } of readManifestLines([path], options)) yield* utterancesOfCut(parsePython(text) as PyObject, `${name}:${line}`, segments, losses);
}

/** A cut as lhotse writes it. */
export const dumpCut = (cut: PyObject): string => dumpPython(cut);
