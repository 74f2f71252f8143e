/** Cuts as sources give them: what samplers and loaders need, and what the data said beyond that. */
import type { Cut } from "../cut.ts";
import type { StoredFeatures } from "./features.ts";
import type { Sound } from "./sound.ts";

/** A stretch of a cut that was transcribed. Times are seconds from the cut's start. Source: lhotse, SupervisionSegment. */
export interface Supervision {
  id: string;
  start: number;
  duration: number;
  text: string | undefined;
  language: string | undefined;
  speaker: string | undefined;
  custom: Readonly<Record<string, unknown>>;
  /** Kind ("word") to items of symbol, start, duration and score, as lhotse keeps them. */
  alignment: Readonly<Record<string, readonly unknown[]>> | undefined;
}

/** A cut of a source. Its text is that of its supervisions, joined. */
export interface SourceCut extends Cut {
  /** Features that were computed before; where there are any, `audioPath` may be "". */
  features: StoredFeatures | undefined;
  supervisions: readonly Supervision[];
  /** Hz of the recording, where the data says it. */
  sampleRate: number | undefined;
  /** Which channel of the audio file, from 0; undefined where it has one, or all are meant. */
  channel: number | undefined;
  /** Keys of the data that have no place of their own, and the tags of the config. */
  custom: Readonly<Record<string, unknown>>;
  /** Which of several configs it is of, where there are several. */
  block?: string | undefined;
  /** How its samples come about, where it is more than a stretch of `audioPath`; `features` is then undefined. */
  sound?: Sound | undefined;
}
