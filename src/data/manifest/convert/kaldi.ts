/** Kaldi data folders: wav.scp, segments, text, utt2spk, spk2utt, utt2dur, reco2dur, utt2lang. Source: kaldi-asr.org/doc/data_prep.html; lhotse, kaldi.py. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { makeWritableFolder, writeFileAtomic } from "../../../formats/atomic.ts";
import { readBytes } from "../../../formats/byteSource.ts";
import { type PyObject, type PyValue, parsePython, pyFloat, pythonFloat } from "../../../formats/pythonJson.ts";
import { FormatError } from "../../../util/errors.ts";
import { flattenPath } from "../../tarred/convert/names.ts";
import { readHeader } from "../check/headers.ts";
import { resolveAudioPath } from "../paths.ts";
import { isText, type Losses, numberOf, roundTime, type Utterance } from "./common.ts";
import { audioIn } from "./lhotse.ts";

/** Bytes of UTF-8 in order, as `LC_ALL=C sort` has them. */
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** A file of "key value" lines. */
async function readTable(path: string): Promise<Map<string, string>> {
  const table = new Map<string, string>();
  if (!existsSync(path)) return table;
  const parts: Buffer[] = [];
  for await (const chunk of readBytes(path)) parts.push(chunk);
  for (const [i, line] of Buffer.concat(parts).toString("utf8").split(/\r?\n/).entries()) {
    if (line.trim() === "") continue;
    const [, key, value = ""] = /^\s*(\S+)(?:\s+(.*?))?\s*$/.exec(line) ?? [];
    if (key === undefined) throw new FormatError("JSONL_BAD_LINE", { at: `${path}:${i + 1}`, message: "expected a key and a value" });
    table.set(key, value);
  }
  return table;
}

/** A number as it is spelled in a table, kept as it is where Python would write it so. */
function numberIn(text: string | undefined): PyValue | undefined {
  if (text === undefined || !/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return undefined;
  try {
    return parsePython(text);
  } catch {
    return pyFloat(Number(text)); // leading zeros
  }
}

/** The utterances of a data folder, in the order of `segments`, or of wav.scp where there is none. @throws FormatError FILE_MISSING */
export async function* readKaldi(folder: string, losses: Losses): AsyncGenerator<Utterance> {
  const file = (name: string): string => join(folder, name);
  if (!existsSync(file("wav.scp"))) throw new FormatError("FILE_MISSING", { at: file("wav.scp"), message: "a Kaldi data folder has a wav.scp" });
  const [recordings, segments, texts, speakers, durations, recordingDurations, languages] = (await Promise.all(
    ["wav.scp", "segments", "text", "utt2spk", "utt2dur", "reco2dur", "utt2lang"].map((name) => readTable(file(name))),
  )) as [Map<string, string>, Map<string, string>, Map<string, string>, Map<string, string>, Map<string, string>, Map<string, string>, Map<string, string>];
  const genders = await readTable(existsSync(file("spk2gender")) ? file("spk2gender") : file("spk2gender.map"));
  const utterances = segments.size > 0 ? segments : new Map([...recordings.keys()].map((id) => [id, ""]));
  for (const [id, segment] of utterances) {
    const at = `${segments.size > 0 ? file("segments") : file("wav.scp")}:${id}`;
    const [recordingId = id, startText, endText] = segment === "" ? [id] : segment.split(/\s+/);
    const source = recordings.get(recordingId);
    if (source === undefined) {
      losses.drop("segments without a recording in wav.scp", at);
      continue;
    }
    if (source.endsWith("|") || source.startsWith("|")) {
      losses.drop("audio from a command", at);
      continue;
    }
    if (/\.ark:\d+$/.test(source)) {
      losses.drop("audio inside of an ark file", at);
      continue;
    }
    const start = numberIn(startText);
    const end = numberOf(numberIn(endText));
    let duration = numberIn(durations.get(id));
    if (duration === undefined && start !== undefined && end !== undefined && end >= 0) duration = pyFloat(roundTime(end - (numberOf(start) as number)));
    duration ??= startText === undefined ? numberIn(recordingDurations.get(recordingId)) : undefined;
    if (duration === undefined) {
      const header = await readHeader(resolve(source));
      if (!("failure" in header)) duration = pyFloat(roundTime(header.frames / header.rate - (numberOf(start) ?? 0)));
    }
    const object: PyObject = new Map<string, PyValue>([["audio_filepath", source]]);
    if (duration !== undefined) object.set("duration", duration);
    else losses.add("durations: neither utt2dur, segments, reco2dur nor the audio tells them", at);
    // A segment that is all of its recording needs no offset.
    const all = numberOf(numberIn(recordingDurations.get(recordingId)));
    const whole = numberOf(start) === 0 && all !== undefined && (numberOf(duration) ?? 0) > all - 0.2;
    if (start !== undefined && !whole) object.set("offset", start);
    const text = texts.get(id);
    if (text !== undefined) object.set("text", text);
    const speaker = speakers.get(id);
    if (speaker !== undefined && speaker !== id) object.set("speaker", speaker);
    const lang = languages.get(id);
    if (lang !== undefined) object.set("lang", lang);
    const gender = speaker === undefined ? undefined : genders.get(speaker);
    if (gender !== undefined) object.set("gender", gender);
    object.set("id", id);
    yield { object, at, base: undefined };
  }
}

const held = new Set(["duration", "offset", "text", "speaker", "lang", "id", "gender"]);
const oneWord = (text: string): string => text.replace(/\s+/g, "_");

/** Writes a data folder. Everything is sorted by bytes, as Kaldi's programs expect. */
export async function writeKaldi(folder: string, utterances: AsyncIterable<Utterance>, losses: Losses): Promise<number> {
  const tables = new Map<string, Map<string, string>>(["wav.scp", "segments", "text", "utt2spk", "utt2dur", "reco2dur", "utt2lang", "spk2gender"].map((name) => [name, new Map()]));
  const put = (name: string, key: string, value: string): void => void tables.get(name)?.set(key, value);
  const recordingIds = new Map<string, string>();
  const taken = new Set<string>();
  const wholes: { id: string; recordingId: string; duration: string }[] = [];
  let segmented = false;
  let count = 0;
  for await (const { object, at, base } of utterances) {
    const audio = audioIn(object);
    if (audio === undefined || audio.files.length > 1) {
      losses.drop(audio === undefined ? "lines without audio" : "audio in a file a channel", at);
      continue;
    }
    const written = audio.files[0] as string;
    const path = base === undefined ? resolve(written) : resolveAudioPath(written, base).path;
    const { base: flat } = flattenPath(written.replace(/^\.?\/+/, ""));
    let recordingId = recordingIds.get(path);
    if (recordingId === undefined) {
      recordingId = unused(oneWord(flat), taken);
      recordingIds.set(path, recordingId);
      put("wav.scp", recordingId, path);
    }
    const offset = object.get("offset");
    const duration = object.get("duration");
    const speaker = object.get("speaker");
    const named = object.get("id");
    const start = numberOf(offset);
    const length = numberOf(duration);
    if (length === undefined) {
      losses.drop("lines without a duration", at);
      continue;
    }
    let id = isText(named)
      ? oneWord(named)
      : start === undefined
        ? recordingId
        : `${recordingId}-${String(Math.round(start * 100)).padStart(6, "0")}-${String(Math.round((start + length) * 100)).padStart(6, "0")}`;
    // Kaldi's tools want utterances to be sorted by speaker as well, so that ids begin with it.
    const speakerId = speaker === undefined || speaker === null ? undefined : oneWord(isText(speaker) ? speaker : spell(speaker));
    if (!isText(named) && speakerId !== undefined && !id.startsWith(speakerId)) id = `${speakerId}-${id}`;
    if (tables.get("utt2spk")?.has(id)) id = unused(id, new Set(tables.get("utt2spk")?.keys()));
    if (isText(named) && id !== named) losses.add("ids with spaces, or that were there already", at);
    if (speakerId !== undefined && speakerId !== speaker) losses.add("speakers that are no word", at);
    put("utt2spk", id, speakerId ?? id);
    put("utt2dur", id, spell(duration as PyValue));
    if (start !== undefined) {
      segmented = true;
      put("segments", id, `${recordingId} ${spell(offset as PyValue)} ${pythonFloat(roundTime(start + length))}`);
    } else wholes.push({ id, recordingId, duration: pythonFloat(length) });
    const text = object.get("text");
    if (isText(text)) {
      const words = text
        .split(/\s+/)
        .filter((word) => word !== "")
        .join(" ");
      if (words !== text) losses.add("white space in texts other than single blanks", at);
      put("text", id, words);
    } else if (text !== undefined) losses.add("texts that are no string", at);
    const lang = object.get("lang");
    if (isText(lang)) put("utt2lang", id, lang);
    const gender = object.get("gender");
    if (isText(gender) && speakerId !== undefined) put("spk2gender", speakerId, gender);
    for (const key of object.keys()) if (!held.has(key) && key !== audio.key) losses.add(`the key "${key}"`, at);
    count++;
  }
  if (segmented || wholes.some(({ id, recordingId }) => id !== recordingId))
    for (const { id, recordingId, duration } of wholes) put("segments", id, `${recordingId} 0.0 ${duration}`);
  for (const [path, recordingId] of recordingIds) {
    const header = await readHeader(path);
    if (!("failure" in header)) put("reco2dur", recordingId, pythonFloat(header.frames / header.rate));
  }
  const bySpeaker = new Map<string, string[]>();
  for (const [id, speaker] of tables.get("utt2spk") as Map<string, string>) {
    const list = bySpeaker.get(speaker);
    if (list) list.push(id);
    else bySpeaker.set(speaker, [id]);
  }
  tables.set("spk2utt", new Map([...bySpeaker].map(([speaker, ids]) => [speaker, ids.sort(byBytes).join(" ")])));
  makeWritableFolder(folder);
  for (const [name, table] of tables) {
    if (table.size === 0) continue;
    const lines = [...table].sort(([a], [b]) => byBytes(a, b)).map(([key, value]) => `${key} ${value}`.trimEnd());
    writeFileAtomic(join(folder, name), `${lines.join("\n")}\n`);
  }
  return count;
}

function unused(id: string, taken: Set<string>): string {
  let free = id;
  for (let number = 1; taken.has(free); number++) free = `${id}_${number}`;
  taken.add(free);
  return free;
}

function spell(value: PyValue): string {
  return typeof value === "number"
    ? Number.isSafeInteger(value)
      ? String(value)
      : pythonFloat(value)
    : typeof value === "object" && value !== null && "text" in value
      ? (value as { text: string }).text
      : String(value);
}
