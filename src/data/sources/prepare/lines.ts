/** Lines of recordings, supervisions and cuts as lhotse writes them, of utterances that are whole files, also at another speed. */
import { dumpPython, type PyObject, type PyValue, pyFloat } from "../../../formats/pythonJson.ts";
import { perturbedSamples } from "../times.ts";

/** A file of a corpus, and what was said in it. */
export interface CorpusItem {
  id: string;
  path: string;
  sampleRate: number;
  /** Of one channel. */
  samples: number;
  channels: number;
  text?: string | undefined;
  language?: string | undefined;
  speaker?: string | undefined;
  custom?: Readonly<Record<string, PyValue>> | undefined;
}

/** Stored features of a cut. */
export interface FeaturesOf {
  frames: number;
  bins: number;
  path: string;
  key: string;
}

/** A stretch of an item, at a speed. */
export interface CutPlan {
  item: CorpusItem;
  id: string;
  speed: number;
  /** Samples at the item's rate and that speed. */
  start: number;
  samples: number;
  /** True for a part of its recording, which has no supervision. */
  window: boolean;
}

const map = (entries: readonly (readonly [string, PyValue | undefined])[]): PyObject => new Map(entries.filter((entry): entry is [string, PyValue] => entry[1] !== undefined));
const round = (seconds: number): number => Math.round(seconds * 1e8) / 1e8;

const suffix = (speed: number): string => (speed === 1 ? "" : `_sp${speed}`);

/** A whole file as a cut, at a speed. @param place among the recordings of its manifest, which lhotse puts in the id */
export function planCut(item: CorpusItem, place: number, speed: number): CutPlan {
  return { item, id: `${item.id}-${place}${suffix(speed)}`, speed, start: 0, samples: speed === 1 ? item.samples : perturbedSamples(item.samples, speed), window: false };
}

/** A file in windows of some seconds, the last one shorter; those not longer than `least` seconds are left out. */
export function planWindows(item: CorpusItem, place: number, { duration, longerThan }: { duration: number; longerThan: number }): CutPlan[] {
  const step = Math.round(duration * item.sampleRate);
  const count = Math.ceil(item.samples / step);
  return Array.from({ length: count }, (_, i): CutPlan => {
    const start = i * step;
    return { item, id: `${item.id}-${place}-${i}`, speed: 1, start, samples: Math.min(step, item.samples - start), window: true };
  }).filter(({ samples }) => samples / item.sampleRate > longerThan);
}

function recordingOf({ id, path, sampleRate, samples, channels }: CorpusItem, speed = 1): PyObject {
  const ids = Array.from({ length: channels }, (_, i) => i);
  const count = speed === 1 ? samples : perturbedSamples(samples, speed);
  return map([
    ["id", id + suffix(speed)],
    [
      "sources",
      [
        map([
          ["type", "file"],
          ["channels", ids],
          ["source", path],
        ]),
      ],
    ],
    ["sampling_rate", sampleRate],
    ["num_samples", count],
    ["duration", pyFloat(count / sampleRate)],
    ["channel_ids", ids],
    [
      "transforms",
      speed === 1
        ? undefined
        : [
            map([
              ["name", "Speed"],
              ["kwargs", map([["factor", speed]])],
            ]),
          ],
    ],
  ]);
}

function supervisionOf(item: CorpusItem, samples: number, speed = 1): PyObject {
  const id = item.id + suffix(speed);
  return map([
    ["id", id],
    ["recording_id", id],
    ["start", pyFloat(0)],
    ["duration", pyFloat(samples / item.sampleRate)],
    ["channel", 0],
    ["text", item.text],
    ["language", item.language],
    ["speaker", item.speaker],
    ["custom", item.custom && new Map(Object.entries(item.custom))],
  ]);
}

export const recordingLine = (item: CorpusItem): string => dumpPython(recordingOf(item));
export const supervisionLine = (item: CorpusItem): string => dumpPython(supervisionOf(item, item.samples));

/** The line of a cut. */
export function cutLine({ item, id, speed, start, samples, window }: CutPlan, features?: FeaturesOf): string {
  const seconds = round(samples / item.sampleRate);
  const from: PyValue = window || speed !== 1 ? pyFloat(round(start / item.sampleRate)) : 0;
  return dumpPython(
    map([
      ["id", id],
      ["start", from],
      ["duration", pyFloat(seconds)],
      ["channel", 0],
      ["supervisions", window ? [] : [supervisionOf(item, samples, speed)]],
      [
        "features",
        features &&
          map([
            ["type", "kaldi-fbank"],
            ["num_frames", features.frames],
            ["num_features", features.bins],
            ["frame_shift", 0.01],
            ["sampling_rate", item.sampleRate],
            ["start", from],
            ["duration", pyFloat(seconds)],
            ["storage_type", "lilcom_chunky"],
            ["storage_path", features.path],
            ["storage_key", features.key],
            ["channels", 0],
          ]),
      ],
      ["recording", recordingOf(item, speed)],
      ["type", "MonoCut"],
    ]),
  );
}
