/**
 * A line of lhotse's cuts as a cut: MonoCut, one channel of a MultiCut, MixedCut. PaddingCuts alone, which hold nothing to train on, are refused.
 * Source: lhotse, cut/mono.py, audio/recording.py.
 */
import { existsSync } from "node:fs";
import type { MemberPlace } from "../audioSource.ts";
import { resolveAudioPath } from "../manifest/paths.ts";
import type { SourceCut, Supervision } from "./cut.ts";
import { type FeaturesManifest, parseFeatures } from "./features.ts";
import { bad, type Dict, isDict, listOf, seconds, show, textOf } from "./lhotseJson.ts";
import { mixedCut } from "./lhotseMixed.ts";
import { type Transforms, transformsOf, withTransforms } from "./lhotseTransforms.ts";

/** Where the streams of a Shar folder keep what a cut's placeholders stand for. */
export interface SharMembers {
  recording?: { tar: string; member: MemberPlace } | undefined;
  features?: { tar: string; member: MemberPlace; manifest: FeaturesManifest } | undefined;
}

function supervisionOf(value: unknown, at: string): Supervision {
  if (!isDict(value)) return bad(at, `a supervision is ${show(value)}, expected an object`);
  const start = value["start"];
  if (typeof start !== "number" || !Number.isFinite(start)) bad(at, `a supervision's "start" is ${show(start)}, expected seconds`);
  return {
    id: textOf(value["id"]) ?? "",
    start: start as number,
    duration: seconds(value, "duration", at, 0),
    text: textOf(value["text"]),
    language: textOf(value["language"]),
    speaker: textOf(value["speaker"]),
    custom: isDict(value["custom"]) ? value["custom"] : {},
    alignment: isDict(value["alignment"]) ? (value["alignment"] as Record<string, unknown[]>) : undefined,
  };
}

interface AudioOf {
  path: string;
  channel: number | undefined;
}

/** The file that holds a channel of a recording. */
function audioOf(recording: Dict, channel: unknown, at: string): AudioOf {
  const wanted = Array.isArray(channel) ? channel[0] : channel;
  const sources = listOf(recording["sources"]).filter(isDict);
  const source = sources.find((one) => listOf(one["channels"]).includes(wanted)) ?? sources[0];
  if (!source) return bad(at, "the recording has no source");
  const type = source["type"];
  const path = source["source"];
  if ((type !== "file" && type !== undefined) || typeof path !== "string" || path === "")
    return bad(
      at,
      type === "shar" ? "the audio is in a Shar folder" : `the audio is a ${show(type)}, expected a file`,
      type === "shar" ? "name the folder: type lhotse_shar, shar_path" : "save the audio to files: cuts.save_audios(FOLDER)",
    );
  const channels = listOf(source["channels"]);
  const place = channels.indexOf(wanted);
  return { path, channel: channels.length > 1 && place >= 0 ? place : undefined };
}

const places = new Map<string, string>();

/** Beside the manifest first, then the working directory; archives are named by many lines and looked for once. */
function placeOf(path: string, manifest: string): string {
  const key = `${manifest}\n${path}`;
  let place = places.get(key);
  if (place === undefined) {
    const found = resolveAudioPath(path, manifest);
    // Features may lie in folders, which are no files; what is found nowhere stays as it is written.
    place = found.from !== "nowhere" || existsSync(found.path) ? found.path : path;
    if (places.size > 10_000) places.clear();
    places.set(key, place);
  }
  return place;
}

/**
 * Reads a cut.
 * @param value a line of a manifest of cuts
 * @param at file:line
 * @param manifest where relative paths start; "" where nothing is to be looked for on disk yet
 * @throws ManifestError CUT_BAD, FEATURES_BAD, FEATURES_STORAGE
 */
export function parseLhotseCut(value: Dict, at: string, manifest = "", members: SharMembers = {}): SourceCut {
  const type = value["type"];
  const parse = (one: Dict): SourceCut => parseLhotseCut(one, at, manifest);
  if (type === "MixedCut") return mixedCut(value, at, parse);
  if (type === "PaddingCut") return bad(at, "a PaddingCut on its own, which holds nothing to train on", "leave it out");
  if (type !== "MonoCut" && type !== "MultiCut" && type !== "Cut")
    return bad(
      at,
      value["audio_filepath"] !== undefined ? "this is a line of a NeMo manifest, not a cut" : `"type" is ${show(type)}, expected MonoCut, MultiCut or MixedCut`,
      value["audio_filepath"] !== undefined ? "use type: nemo with manifest_filepath" : "give a manifest of cuts (lhotse cut simple makes one of recordings and supervisions)",
    );
  const id = value["id"];
  if (typeof id !== "string" || id === "") bad(at, `"id" is ${show(id)}, expected a text`);
  const start = seconds(value, "start", at, 0);
  const duration = seconds(value, "duration", at, 1e-9);
  const recording = isDict(value["recording"]) ? value["recording"] : undefined;
  const channel = value["channel"];
  if (Array.isArray(channel) && channel.length > 1)
    bad(at, `a MultiCut of ${channel.length} channels, of which one can be trained on`, "choose it: cuts.to_mono() in lhotse, or convert the cuts to one channel");
  const placeholder = isDict(value["features"]) && value["features"]["storage_type"] === "shar";
  const stored = members.features?.manifest ?? (isDict(value["features"]) && !placeholder ? parseFeatures(value["features"], at) : undefined);
  if (!recording && !stored) bad(at, "the cut has neither a recording nor features");
  const supervisions = listOf(value["supervisions"]).map((one) => supervisionOf(one, at));
  const transforms: Transforms = recording && !members.recording ? transformsOf(recording["transforms"], at, stored === undefined, parse) : { speed: 1, others: [] };
  const { speed } = transforms;
  let audio: AudioOf = { path: "", channel: undefined };
  if (members.recording) audio = { path: members.recording.tar, channel: undefined };
  else if (recording) {
    try {
      audio = audioOf(recording, channel, at);
    } catch (error) {
      if (!stored) throw error; // with features the audio is not needed
    }
  }
  const rate = recording?.["sampling_rate"];
  const length = recording?.["duration"];
  const isWhole = start === 0 && (typeof length !== "number" || duration >= length - 1e-9);
  const custom = isDict(value["custom"]) ? { ...value["custom"] } : {};
  const texts = supervisions.flatMap(({ text }) => (text === undefined || text === "" ? [] : [text]));
  const cut: SourceCut = {
    id: id as string,
    audioPath: audio.path === "" || members.recording || manifest === "" ? audio.path : placeOf(audio.path, manifest),
    member: members.recording?.member,
    offset: isWhole ? undefined : start * speed,
    duration,
    text: texts.join(" "),
    speaker: supervisions.find((one) => one.speaker !== undefined)?.speaker,
    lang: supervisions.find((one) => one.language !== undefined)?.language,
    speed,
    tracks: undefined,
    gap: 0,
    origin: at,
    features: stored && {
      manifest: members.features || manifest === "" ? stored : { ...stored, storagePath: placeOf(stored.storagePath, manifest) },
      member: members.features?.member,
      start,
      duration,
      origin: at,
    },
    supervisions,
    sampleRate: typeof rate === "number" ? rate : undefined,
    channel: audio.channel,
    custom,
  };
  return stored ? cut : withTransforms(cut, transforms);
}
