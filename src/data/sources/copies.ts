/**
 * What becomes of an utterance before batches are made: copies at other speeds, each truncated, cut into windows and padded, in NeMo's order. Their seconds are
 * told from the utterance's alone, so that samplers know them before anything is read.
 */
import { cutIntoWindows, perturbCutSpeed, windowCount } from "../loading/played.ts";
import type { SourceCut } from "./cut.ts";
import { numSamples, perturbedSamples } from "./times.ts";

/** The speeds of perturb_speed. Source: NeMo, dataloader.py. */
const speeds = [1, 0.9, 1.1] as const;

/** How utterances are copied. */
export interface CopyOptions {
  perturbSpeed: boolean;
  /** Longer ones are truncated to these seconds, by the loader. */
  truncate: number | undefined;
  /** Cut into windows of `duration` seconds every `hop`. */
  windows: { duration: number; hop: number; keepExcessive: boolean } | undefined;
  /** Shorter ones are padded to these seconds, by the loader. */
  pad: number | undefined;
  /** Hz at which samples are counted. */
  sampleRate: number;
}

/** One of an utterance's copies. */
export interface Copy {
  /** 1 for the utterance as it is. */
  speed: number;
  /** From 0; undefined where there are no windows. */
  window: number | undefined;
  /** Seconds that are loaded. */
  seconds: number;
}

const factors = ({ perturbSpeed }: CopyOptions): readonly number[] => (perturbSpeed ? speeds : [1]);

/** True where an utterance is all there is of it. */
export const isSingle = ({ perturbSpeed, windows }: CopyOptions): boolean => !perturbSpeed && windows === undefined;

/** Seconds that are loaded of so many. */
export const loadedSeconds = (seconds: number, { truncate = Number.POSITIVE_INFINITY, pad = 0 }: CopyOptions): number => Math.max(Math.min(seconds, truncate), pad);

/** The copies of an utterance of some seconds. */
export function copiesOf(duration: number, options: CopyOptions): Copy[] {
  const { windows, sampleRate } = options;
  return factors(options).flatMap((speed): Copy[] => {
    const seconds = speed === 1 ? duration : perturbedSamples(numSamples(duration, sampleRate), speed) / sampleRate;
    if (!windows) return [{ speed, window: undefined, seconds: loadedSeconds(seconds, options) }];
    const { duration: length, hop } = windows;
    return Array.from({ length: windowCount(seconds, length, hop) }, (_, window) => {
      const offset = Math.round(window * hop * 1e8) / 1e8;
      return { speed, window, seconds: loadedSeconds(Math.round(Math.min(length, seconds - offset) * 1e8) / 1e8, options) };
    });
  });
}

/** The cut of a copy. */
export function copyOf(cut: SourceCut, { speed, window }: Pick<Copy, "speed" | "window">, { windows, sampleRate }: CopyOptions): SourceCut {
  const played = perturbCutSpeed(cut, speed, sampleRate);
  if (window === undefined || !windows) return played;
  return cutIntoWindows(played, { window: windows.duration, hop: windows.hop, keepExcessive: windows.keepExcessive })[window] as SourceCut;
}
