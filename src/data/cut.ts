/** A cut: a stretch of a recording with its transcript. The word is lhotse's. */

import type { MemberPlace } from "./audioSource.ts";
import type { PathSource } from "./manifest/paths.ts";

/** What is known of an utterance before its audio is read. Durations and offsets are seconds. */
export interface Cut {
  /** Unique in its manifest as far as the manifest is: path, offset and duration. */
  id: string;
  /** The audio file, resolved. */
  audioPath: string;
  /** Which of its places that is. */
  audioFrom?: PathSource;
  /** Where `audioPath` is a tar: the member that is the recording. */
  member?: MemberPlace;
  /** Where in the recording the cut begins; undefined is the whole recording. */
  offset: number | undefined;
  /** As the manifest says, divided by `speed`. */
  duration: number;
  text: string;
  speaker: string | undefined;
  lang: string | undefined;
  /** Playing speed: 1.1 is faster and higher. */
  speed: number;
  /** Cuts that play one after another, with `gap` seconds between them; their texts are joined. */
  tracks: readonly Cut[] | undefined;
  gap: number;
  /** Where the manifest has it: "train.jsonl:17". */
  origin: string;
}

/** The cut played at another speed, with the duration that it then has. */
export function perturbSpeed(cut: Cut, factor: number): Cut {
  if (factor === 1) return cut;
  return { ...cut, id: `${cut.id}_sp${factor}`, speed: cut.speed * factor, duration: cut.duration / factor };
}
