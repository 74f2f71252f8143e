/**
 * SpecAugment (arXiv 1904.08779): time warping, and masks over bins and frames.
 * Source: lhotse's SpecAugment as icefall's recipes set it: masks take the mean of the whole padded row; warping and masking each happen with probability p.
 */
import { ConfigError } from "../util/errors.ts";
import type { Random } from "../util/random.ts";
import type { Features } from "./fbank.ts";

/** Settings; the defaults are those of icefall's recipes. */
export interface SpecAugmentOptions {
  /** Frames that the centre of the warp may move; 0 turns warping off. 80 by default. */
  timeWarpFactor?: number;
  /** 2 by default. */
  numFeatureMasks?: number;
  /** Widths are drawn from 0 to this, not included; 27 by default. */
  featuresMaskSize?: number;
  /** At most so many; 10 by default. */
  numFrameMasks?: number;
  /** 100 by default. */
  framesMaskSize?: number;
  /** Part of the frames that masks may cover; 0.15 by default. */
  maxFramesMaskFraction?: number;
  /** Of warping, and again of masking; 0.9 by default. */
  p?: number;
}

/** A stretch of frames, such as one utterance in a row that holds several. */
export interface Segment {
  startFrame: number;
  numFrames: number;
}

/** Keys's cubic with a = -0.75, as torch's bicubic interpolation uses it: weights of the samples at -1, 0, 1 and 2 for a point at t in [0, 1). */
function cubicWeights(t: number): [number, number, number, number] {
  const a = -0.75;
  const near = (x: number) => ((a + 2) * x - (a + 3)) * x * x + 1;
  const far = (x: number) => ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return [far(t + 1), near(t), near(1 - t), far(2 - t)];
}

/**
 * Stretches rows to another number of rows: torch's bicubic interpolation along time, align_corners False, the edge rows repeated.
 * @param data (from, bins)
 * @param out (to, bins), must not overlap `data`
 */
export function interpolateFrames(data: Float32Array, from: number, out: Float32Array, to: number, bins: number): void {
  const scale = from / to;
  const row = (t: number) => Math.max(0, Math.min(from - 1, t)) * bins;
  for (let t = 0; t < to; t++) {
    const x = (t + 0.5) * scale - 0.5;
    const base = Math.floor(x);
    const [w0, w1, w2, w3] = cubicWeights(x - base);
    const [r0, r1, r2, r3] = [row(base - 1), row(base), row(base + 1), row(base + 2)];
    for (let c = 0; c < bins; c++) {
      out[t * bins + c] = w0 * (data[r0 + c] as number) + w1 * (data[r1 + c] as number) + w2 * (data[r2 + c] as number) + w3 * (data[r3 + c] as number);
    }
  }
}

/** Draws and applies warps and masks. */
export class SpecAugment {
  readonly options: Required<SpecAugmentOptions>;

  /** @throws ConfigError CONFIG_BAD_VALUE */
  constructor(options: SpecAugmentOptions = {}) {
    this.options = { timeWarpFactor: 80, numFeatureMasks: 2, featuresMaskSize: 27, numFrameMasks: 10, framesMaskSize: 100, maxFramesMaskFraction: 0.15, p: 0.9, ...options };
    for (const [name, value] of Object.entries(this.options)) {
      const isFraction = name === "p" || name === "maxFramesMaskFraction";
      if (!(value >= 0) || (isFraction ? value > 1 : !Number.isInteger(value))) {
        throw new ConfigError("CONFIG_BAD_VALUE", { at: "SpecAugment", message: `${name} is ${value}, not ${isFraction ? "within 0 to 1" : "a whole number of 0 or more"}` });
      }
    }
  }

  /**
   * Warps the whole, then masks it, in place. Of a padded batch this is for one row, padding included.
   * @param features (T, C)
   */
  apply(features: Features, random: Random): void {
    if (random.uniform() <= this.options.p) this.timeWarp(features, random);
    if (random.uniform() <= this.options.p) this.mask(features, random);
  }

  /** Warps each segment with probability p, then masks the whole row with probability p, in place: what icefall's datasets do to a batch. */
  applyToSegments(features: Features, segments: readonly Segment[], random: Random): void {
    for (const { startFrame, numFrames } of segments) {
      if (random.uniform() > this.options.p) continue;
      const end = Math.min(features.frames, startFrame + numFrames);
      if (startFrame < 0 || end <= startFrame) continue;
      const data = features.data.subarray(startFrame * features.bins, end * features.bins);
      this.timeWarp({ frames: end - startFrame, bins: features.bins, data }, random);
    }
    if (random.uniform() <= this.options.p) this.mask(features, random);
  }

  /** Moves one frame by up to timeWarpFactor and stretches both sides to fit, in place. Too short features stay as they are. */
  timeWarp({ frames, bins, data }: Features, random: Random): void {
    const factor = this.options.timeWarpFactor;
    if (factor < 1 || frames - factor <= factor + 1) return;
    const center = random.integer(factor + 1, frames - factor);
    const warped = random.integer(center - factor, center + factor + 1);
    if (warped === center) return;
    const whole = data.slice(0, frames * bins);
    interpolateFrames(whole.subarray(0, center * bins), center, data.subarray(0, warped * bins), warped, bins);
    interpolateFrames(whole.subarray(center * bins), frames - center, data.subarray(warped * bins), frames - warped, bins);
  }

  /** Sets stretches of bins and of frames to the mean of all values, in place. */
  mask({ frames, bins, data }: Features, random: Random): void {
    const { numFeatureMasks, featuresMaskSize, numFrameMasks, framesMaskSize, maxFramesMaskFraction } = this.options;
    if (frames === 0 || bins === 0) return;
    let sum = 0;
    for (let i = 0; i < frames * bins; i++) sum += data[i] as number;
    const mean = sum / (frames * bins);

    for (let i = 0; i < numFeatureMasks && featuresMaskSize > 0; i++) {
      const width = Math.min(bins, random.integer(0, featuresMaskSize));
      const start = Math.floor(random.uniform() * (bins - width));
      for (let t = 0; t < frames; t++) data.fill(mean, t * bins + start, t * bins + start + width);
    }

    const budget = maxFramesMaskFraction * frames;
    const count = framesMaskSize > 0 ? Math.min(numFrameMasks, Math.ceil(budget / framesMaskSize)) : 0;
    const limit = count > 0 ? Math.min(framesMaskSize, Math.floor(budget / count)) : 0; // 0 for a handful of frames: no masks
    for (let i = 0; i < count && limit > 0; i++) {
      const width = random.integer(0, limit);
      const start = Math.floor(random.uniform() * (frames - width));
      data.fill(mean, start * bins, (start + width) * bins);
    }
  }
}
