/**
 * Features of audio that comes piece by piece: the frames of `fbank` on the whole, bit for bit, each as soon as its samples are there.
 * Edges are mirrored as there (`snipEdges` false): the first frames by the first samples, the last ones when the end is known.
 */
import { AudioError, ConfigError } from "../util/errors.ts";
import { type FbankOptions, type Features, fbankSync, numFramesOf } from "./fbank.ts";

/** Settings as those of `fbank`, but for the edges. */
export type OnlineFbankOptions = Omit<FbankOptions, "snipEdges">;

/** Where a sample beyond the edges is taken from: mirrored, the edge sample repeated. */
function mirrored(i: number, length: number): number {
  const period = 2 * length;
  const at = ((i % period) + period) % period;
  return at < length ? at : period - 1 - at;
}

/** Makes features of one stream of samples. Not for several streams at once. */
export class OnlineFbank {
  private readonly options: FbankOptions;
  private readonly bins: number;
  /** Samples of a frame, from one to the next, and of the first that lie before the start. */
  private readonly length: number;
  private readonly shift: number;
  private readonly lead: number;
  private kept = new Float32Array(0);
  /** Place in the stream of the first sample that is kept. */
  private keptFrom = 0;
  private numSamples = 0;
  private numFrames = 0;
  private ended = false;

  /** @throws ConfigError CONFIG_BAD_VALUE */
  constructor(options: OnlineFbankOptions) {
    const { sampleRate, numMelBins = 80, frameLength = 0.025, frameShift = 0.01 } = options;
    this.options = Object.freeze({ ...options, snipEdges: true }); // whole frames, of samples that are mirrored here
    this.bins = numMelBins;
    fbankSync(new Float32Array(0), this.options); // checks the settings
    this.length = Math.floor(frameLength * sampleRate + 1e-9);
    this.shift = Math.floor(frameShift * sampleRate + 1e-9);
    this.lead = Math.floor((this.length - this.shift) / 2);
  }

  /** Samples that came so far. */
  get samples(): number {
    return this.numSamples;
  }

  /** Frames that were given so far. */
  get frames(): number {
    return this.numFrames;
  }

  /**
   * @param samples in [-1, 1], any number, which follow those before
   * @returns (T, C), the frames that are complete by now and were not before
   * @throws AudioError AUDIO_NOT_FINITE, and nothing is taken then; ConfigError after `finish`
   */
  accept(samples: Float32Array): Features {
    if (this.ended) throw new ConfigError("CONFIG_BAD_VALUE", { at: "OnlineFbank", message: "samples came after the end of the stream", fix: "make another OnlineFbank" });
    const bad = samples.findIndex((sample) => !Number.isFinite(sample));
    if (bad >= 0) throw new AudioError("AUDIO_NOT_FINITE", { at: `sample ${this.numSamples + bad}`, message: "the samples hold NaN or infinite values" });
    const joined = new Float32Array(this.kept.length + samples.length);
    joined.set(this.kept);
    joined.set(samples, this.kept.length);
    this.kept = joined;
    this.numSamples += samples.length;
    const complete = Math.floor((this.numSamples + this.lead - this.length) / this.shift) + 1; // their last sample is there
    const features = this.framesUpTo(Math.max(complete, this.numFrames));
    this.forget();
    return features;
  }

  /** Ends the stream. @returns (T, C), the last frames */
  finish(): Features {
    this.ended = true;
    const features = this.framesUpTo(Math.max(this.numFrames, numFramesOf(this.numSamples, { ...this.options, snipEdges: false })));
    this.kept = new Float32Array(0);
    this.keptFrom = this.numSamples;
    return features;
  }

  /** The next frames. */
  private framesUpTo(end: number): Features {
    const count = end - this.numFrames;
    if (count <= 0) return { frames: 0, bins: this.bins, data: new Float32Array(0) };
    const start = this.numFrames * this.shift - this.lead;
    const signal = Float32Array.from({ length: (count - 1) * this.shift + this.length }, (_, i) => this.kept[mirrored(start + i, this.numSamples) - this.keptFrom] as number);
    this.numFrames = end;
    return fbankSync(signal, this.options);
  }

  /** Drops samples that no frame to come sees, neither in its place nor mirrored at the end. */
  private forget(): void {
    const needed = Math.max(0, Math.min(this.numFrames * this.shift - this.lead, this.numSamples) - this.length);
    this.kept = this.kept.slice(needed - this.keptFrom);
    this.keptFrom = needed;
  }
}
