/**
 * The batch that training gets: lhotse's K2SpeechRecognitionDataset's, with names in camelCase.
 * Source: lhotse, dataset/speech_recognition.py, and supervision_to_frames of utils.py.
 */
import { ManifestError } from "../../util/errors.ts";
import type { Batch } from "../loader.ts";
import type { SourceCut, Supervision } from "../sources/cut.ts";
import { numFrames } from "../sources/times.ts";
import type { JobResult } from "./job.ts";
import type { PlayedCut } from "./played.ts";

/** What was said where in a batch: one entry for each supervision, so at least one for each row. lhotse's names are those with underscores. */
export interface Supervisions {
  /** The row of `inputs`: sequence_idx. */
  sequenceIdx: Int32Array;
  /** The first frame in that row: start_frame. */
  startFrame: Int32Array;
  /** Frames, never more than the row has: num_frames. */
  numFrames: Int32Array;
  text: string[];
  /** The row's cut. */
  cut: SourceCut[];
  /** Where all supervisions have an alignment of words: the words, and the frames at which each begins and ends (word_start, word_end). */
  words: { word: string[][]; wordStart: number[][]; wordEnd: number[][] } | undefined;
}

/** A batch of an epoch. */
export interface SpeechBatch extends Batch<SourceCut> {
  epoch: number;
  /** From 0 in its epoch; steps whose utterances were all left out are passed over. */
  step: number;
  supervisions: Supervisions;
}

/** Seconds between frames. */
export const frameShift = 0.01;
/** Seconds by which supervisions may reach beyond their cut. Source: lhotse, validate_for_asr. */
const tolerance = 2e-3;

/** Supervisions of a cut; where it has none, one over all of it. */
export function supervisionsOf(cut: SourceCut): readonly Supervision[] {
  if (cut.supervisions.length > 0) return cut.supervisions;
  const { id, duration, text, lang, speaker } = cut;
  return [{ id, start: 0, duration, text, language: lang, speaker, custom: {}, alignment: undefined }];
}

/** @throws ManifestError CUT_BAD for a supervision that reaches beyond its cut */
export function checkSupervisions(cut: SourceCut): void {
  for (const { id, start, duration } of cut.supervisions) {
    const what = start < -tolerance ? `starts ${-start} s before` : start + duration > cut.duration + tolerance ? `ends ${start + duration - cut.duration} s after` : undefined;
    if (what !== undefined)
      throw new ManifestError("CUT_BAD", {
        at: cut.origin,
        message: `supervision ${id} ${what} its cut`,
        fix: "keep supervisions within their cuts: keep_excessive_supervisions=false, or lhotse's trim_to_supervisions",
      });
  }
}

/** Start frame and frames of a supervision. */
export function segmentOf({ start, duration }: Supervision, sampleRate: number): readonly [number, number] {
  return [Math.max(0, numFrames(start, frameShift, sampleRate)), numFrames(duration, frameShift, sampleRate)];
}

/** Puts a rendered batch and its cuts together; rows that could not be rendered are not among them. */
export function speechBatch(cuts: readonly PlayedCut[], { inputs, frames, bins, rows }: JobResult, sampleRate: number, place: { epoch: number; step: number }): SpeechBatch {
  const kept = cuts.flatMap((cut, row) => (typeof rows[row] === "number" ? [{ cut, frames: rows[row] as number }] : []));
  const entries = kept.flatMap(({ cut, frames: rowFrames }, row) =>
    supervisionsOf(cut).map((one) => {
      const [start, count] = segmentOf(one, sampleRate);
      const first = Math.min(start, rowFrames);
      return { one, cut, row, first, count: Math.min(count, rowFrames - first) };
    }),
  );
  return {
    ...place,
    cuts: kept.map(({ cut }) => cut),
    inputs,
    frames,
    bins,
    inputLens: kept.map((one) => one.frames),
    audioSeconds: kept.reduce((sum, { cut }) => sum + cut.duration, 0),
    supervisions: {
      sequenceIdx: Int32Array.from(entries, ({ row }) => row),
      startFrame: Int32Array.from(entries, ({ first }) => first),
      numFrames: Int32Array.from(entries, ({ count }) => count),
      text: entries.map(({ one }) => one.text ?? ""),
      cut: entries.map(({ cut }) => cut),
      words: wordsOf(
        entries.map(({ one }) => one),
        sampleRate,
      ),
    },
  };
}

function wordsOf(supervisions: readonly Supervision[], sampleRate: number): Supervisions["words"] {
  const lists = supervisions.map(({ alignment }) => alignment?.["word"]?.filter((item): item is [string, number, number] => Array.isArray(item) && typeof item[1] === "number"));
  if (lists.length === 0 || !lists.every((list) => list !== undefined)) return undefined;
  const frame = (seconds: number): number => numFrames(seconds, frameShift, sampleRate);
  return {
    word: lists.map((list) => list.map(([symbol]) => symbol)),
    wordStart: lists.map((list) => list.map(([, start]) => frame(start))),
    wordEnd: lists.map((list) => list.map(([, start, duration]) => frame(Math.round((start + duration) * 1e8) / 1e8))),
  };
}
