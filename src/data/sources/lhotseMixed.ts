/**
 * A MixedCut: tracks that play together, each from its offset on and as loud as its ratio to one of them says. Source: lhotse, cut/mixed.py.
 */
import type { SourceCut } from "./cut.ts";
import { bad, type Dict, isDict, listOf, seconds, textOf } from "./lhotseJson.ts";
import { transformsOf } from "./lhotseTransforms.ts";
import { playedOf, type Sound, type Track } from "./sound.ts";
import { digits, shifted } from "./supervisions.ts";

interface CutTrack {
  /** Undefined for silence. */
  cut: SourceCut | undefined;
  offset: number;
  duration: number;
  snr: number | undefined;
  isReference: boolean;
  mute: boolean;
}

function trackOf(track: unknown, at: string, parse: (cut: Dict) => SourceCut): CutTrack {
  if (!isDict(track) || !isDict(track["cut"])) return bad(at, "a track without a cut");
  const { cut, snr } = track;
  const kind = track["type"] ?? cut["type"];
  if (kind === "MixedCut") bad(at, "a MixedCut among the tracks of a MixedCut", "flatten it: lhotse writes the tracks of both in one");
  if (snr !== undefined && snr !== null && (typeof snr !== "number" || !Number.isFinite(snr))) bad(at, `a track's "snr" is ${JSON.stringify(snr)}, expected dB`);
  const one = kind === "PaddingCut" ? undefined : parse({ ...cut, type: kind });
  return {
    cut: one,
    offset: track["offset"] === undefined || track["offset"] === null ? 0 : seconds(track, "offset", at, 0),
    duration: one?.duration ?? seconds(cut, "duration", at, 0),
    snr: typeof snr === "number" ? snr : undefined,
    isReference: track["is_snr_reference"] === true,
    mute: track["mute"] === true,
  };
}

/** @returns the number of the track that ratios are to. @throws ManifestError CUT_BAD where there is none */
function referenceOf(tracks: readonly CutTrack[], at: string): number | undefined {
  const marked = tracks.findIndex(({ isReference }) => isReference);
  const found = marked >= 0 ? marked : tracks.findIndex(({ cut, snr }) => cut !== undefined && snr === undefined);
  if (found >= 0) return found;
  if (tracks.every(({ snr }) => snr === undefined)) return undefined;
  return bad(at, "a MixedCut whose tracks all have a ratio (snr), and none that it is to", "mark the track of the speech: is_snr_reference");
}

/**
 * Reads a MixedCut. What is said, and by whom, is that of its audible tracks; muted ones are left out, unless all are.
 * @param parse reads the cut of a track
 * @throws ManifestError CUT_BAD, and what `parse` throws
 */
export function mixedCut(value: Dict, at: string, parse: (cut: Dict) => SourceCut): SourceCut {
  const all = listOf(value["tracks"]).map((track) => trackOf(track, at, parse));
  const audible = all.filter(({ mute }) => !mute);
  const heard = audible.length > 0 ? audible : all;
  const first = heard.find(({ cut }) => cut !== undefined)?.cut;
  if (!first) return bad(at, "a MixedCut without a track that plays something");
  const reference = all[referenceOf(all, at) ?? -1];
  // A muted reference is not heard, but measured; lhotse's silence is no track of its own here.
  const playing = heard.filter((track): track is CutTrack & { cut: SourceCut } => track.cut !== undefined);
  if (reference?.cut && !playing.includes(reference as (typeof playing)[number])) bad(at, "a MixedCut whose ratios are to a muted track", "mark another one: is_snr_reference");
  const duration = digits(Math.max(...heard.map((track) => track.offset + track.duration)));
  const tracks = playing.map(({ cut, offset, snr }): Track => ({ of: playedOf(cut), offset, snr }));
  const supervisions = playing.flatMap(({ cut, offset }) => cut.supervisions.map((one) => shifted(one, offset)));
  const id = textOf(value["id"]) ?? first.id;
  const texts = supervisions.flatMap(({ text }) => (text === undefined || text === "" ? [] : [text]));
  const [only] = playing;
  const { others, speed } = transformsOf(value["transforms"], at, true, parse);
  if (speed !== 1) bad(at, 'a MixedCut with the transform "Speed"', "perturb its tracks: lhotse does so");
  const cut = { ...first, id, duration, text: texts.join(" "), supervisions };
  if (playing.length === 1 && only && only.offset === 0 && only.duration === duration && others.length === 0) return cut;
  const mixed: Sound = { kind: "tracks", tracks, reference: reference ? playing.indexOf(reference as (typeof playing)[number]) : undefined };
  const sound = others.reduce((of: Sound, change) => (typeof change === "number" ? of : change({ sound: of, duration })), mixed);
  return { ...cut, sound, features: undefined };
}
