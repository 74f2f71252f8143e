/**
 * One batch as work for any thread: from sounds to a padded array of features with masks. A job is plain data that can be sent to a thread; its result
 * depends on nothing else.
 * Source: lhotse, dataset/input_strategies.py, collation.py and signal_transforms.py.
 */
import { type Features, SpecAugment, type SpecAugmentOptions } from "../../audio/index.ts";
import { AudioError, ManifestError, type SeracError } from "../../util/errors.ts";
import { type SentError, sendError } from "../../util/sentError.ts";
import { paddingValue } from "../loader.ts";
import { type RenderOptions, renderFeatures } from "../sources/render.ts";
import type { Played } from "../sources/sound.ts";
import { streamOf } from "./transforms.ts";

/** An utterance of a batch. */
export interface JobRow {
  played: Played;
  /** What its masks are drawn from. */
  seed: string;
  /** Where it is spoken: start frames and numbers of frames, which are warped one by one. */
  segments: readonly (readonly [number, number])[];
}

/** A batch to render. */
export interface Job extends RenderOptions {
  rows: readonly JobRow[];
  specAugment: Required<SpecAugmentOptions> | undefined;
}

/** What became of a batch. */
export interface JobResult {
  /** (N, T, C) of the rows that could be rendered, in order, padded with `paddingValue`. */
  inputs: Float32Array<ArrayBuffer>;
  frames: number;
  bins: number;
  /** Frames of each row; its error where it could not be rendered. */
  rows: (number | SentError)[];
}

/**
 * Renders a batch.
 * @param atOnce rows in work at a time: several keep Node's threads busy from one thread; in a thread of ours one after the other, so that what fails has a name
 * @param onRow the row that is begun
 */
export async function renderJob(job: Job, atOnce: number, onRow?: (row: number) => void): Promise<JobResult> {
  const rendered: (Features | SentError)[] = new Array(job.rows.length);
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < job.rows.length) {
      const row = next++;
      onRow?.(row);
      try {
        const { played } = job.rows[row] as JobRow;
        const features = await renderFeatures(played, job);
        if (features.frames === 0) throw tooShort(played.duration);
        rendered[row] = features;
      } catch (error) {
        rendered[row] = sendError(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, job.rows.length) }, lane));
  return collateRows(job, rendered);
}

const tooShort = (duration: number): SeracError =>
  new AudioError("AUDIO_EMPTY", { message: `${duration} s of audio are less than a frame of features`, fix: "leave out utterances below 0.01 s" });

function collateRows({ rows, specAugment, numMelBins }: Job, rendered: readonly (Features | SentError)[]): JobResult {
  const kept = rendered.flatMap((one, row) => ("data" in one ? [{ features: one, row }] : []));
  const frames = kept.reduce((most, { features }) => Math.max(most, features.frames), 0);
  const bins = kept[0]?.features.bins ?? numMelBins;
  const inputs = new Float32Array(kept.length * frames * bins);
  const augment = specAugment && new SpecAugment(specAugment);
  const results = rendered.map((one) => ("data" in one ? one.frames : one));
  let place = 0;
  for (const { features, row } of kept) {
    if (features.bins !== bins) {
      results[row] = sendError(
        new ManifestError("FEATURES_BAD", {
          message: `${features.bins} bins where others of the batch have ${bins}`,
          fix: "compute all features alike, or leave stored ones out",
        }),
      );
      continue;
    }
    const start = place++ * frames * bins;
    inputs.set(features.data, start);
    inputs.fill(paddingValue, start + features.data.length, start + frames * bins);
    const { seed, segments } = rows[row] as JobRow;
    augment?.applyToSegments(
      { frames, bins, data: inputs.subarray(start, start + frames * bins) },
      segments.map(([startFrame, numFrames]) => ({ startFrame, numFrames })),
      streamOf("specAugment", seed),
    );
  }
  return { inputs: place === kept.length ? inputs : inputs.slice(0, place * frames * bins), frames, bins, rows: results };
}
