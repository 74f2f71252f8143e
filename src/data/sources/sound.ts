/**
 * What a cut sounds like where it is more than a stretch of a recording: a tree of plain data that says how its samples come about, and is rendered later,
 * in any thread. Times are seconds.
 */
import type { ClipOptions, LossyCodec } from "../../audio/index.ts";
import type { SourceCut } from "./cut.ts";

/** How samples come about. */
export type Sound =
  | { kind: "cut"; cut: SourceCut }
  | { kind: "part"; of: Played; offset: number }
  | { kind: "speed"; of: Played; factor: number }
  | { kind: "volume"; of: Played; factor: number }
  | { kind: "row"; parts: readonly Placed[] }
  | { kind: "tracks"; tracks: readonly Track[]; reference: number | undefined }
  | { kind: "loudness"; of: Played; target: number }
  | { kind: "lowpass"; of: Played; cutoff: number }
  | { kind: "clip"; of: Played; options: ClipOptions }
  | { kind: "codec"; of: Played; codec: LossyCodec; level: number }
  | { kind: "reverb"; of: Played; response: Response; normalize: boolean };

/** A sound and how many seconds of it there are. */
export interface Played {
  sound: Sound;
  duration: number;
}

/** A sound and where it begins in another. */
export interface Placed {
  of: Played;
  offset: number;
}

/** One of several sounds that play together. Its ratio, in dB, is to the one that `reference` counts from 0; undefined is as loud as it is. */
export interface Track extends Placed {
  snr: number | undefined;
}

/** An impulse response: a recording, of which `duration` seconds may be used alone, or a room that is made up from a seed. */
export type Response = { kind: "recording"; cut: SourceCut } | { kind: "room"; reverberationTime: number; seed: number };

/** The sound of a cut, without what is not heard: it is sent to threads. */
export function playedOf({ sound, ...cut }: SourceCut): Played {
  return { sound: sound ?? { kind: "cut", cut: { ...cut, text: "", supervisions: [], custom: {} } }, duration: cut.duration };
}
