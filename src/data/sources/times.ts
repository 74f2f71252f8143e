/** Seconds, samples and frames, rounded as lhotse rounds them, so that counts agree to the last frame. Source: lhotse, utils.py. */

const digits = (value: number): number => Math.round(value * 1e8) / 1e8;

/** Whole samples of some seconds, a half rounded up. Source: compute_num_samples. */
export function numSamples(seconds: number, sampleRate: number): number {
  return Math.floor(digits(seconds * sampleRate) + 0.5);
}

/** Rounds halves to even, as Python's round(). */
export function roundEven(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** Frames of some seconds. Source: compute_num_frames. */
export function numFrames(seconds: number, frameShift: number, sampleRate: number): number {
  const samples = roundEven(seconds * sampleRate);
  const hop = roundEven(frameShift * sampleRate);
  return Math.floor((samples + Math.floor(hop / 2)) / hop);
}

/** Samples that are left at another speed: halves are rounded up where it is faster, down where it is slower. Source: perturb_num_samples. */
export function perturbedSamples(samples: number, factor: number): number {
  const exact = digits(samples / factor);
  return factor >= 1 ? Math.floor(exact + 0.5) : Math.ceil(exact - 0.5);
}
