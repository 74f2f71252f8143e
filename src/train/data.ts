/** What training reads: manifests, with what cannot be used counted by reason, and the batches of each epoch. */
import { SpecAugment } from "../audio/index.ts";
import {
  type Cut,
  concatenate,
  createSampler,
  encoderFrames,
  filterCuts,
  LeftOut,
  type LoadOptions,
  loadBatches,
  loadManifest,
  loadTarredCuts,
  memorySource,
  minFeatureFrames,
  neededFrames,
  perturbSpeed,
  type SamplerOptions,
} from "../data/index.ts";
import type { SentencePiece } from "../text/index.ts";
import { TrainError } from "../util/errors.ts";
import { Random } from "../util/random.ts";
import type { TrainOptions } from "./options.ts";

/** Utterances to train or validate on. */
export interface Prepared {
  cuts: Cut[];
  leftOut: LeftOut;
  /** Seconds. */
  duration: number;
}

/** Which utterances to prepare. */
export interface Source {
  manifests: readonly string[];
  /** Tars that hold the audio of the manifests; without them it lies in files. */
  tars?: readonly string[] | undefined;
  /** Told what is odd about the tars, but leaves nothing out. */
  say?: (line: string) => void;
}

/**
 * Reads manifests and leaves out what cannot be trained on.
 * @throws TrainError TRAIN_NO_DATA when nothing is left
 */
export async function prepareCuts({ manifests, tars, say = () => {} }: Source, tokenizer: SentencePiece, options: TrainOptions): Promise<Prepared> {
  const leftOut = new LeftOut();
  const all = tars
    ? await loadTarredCuts({ manifest: manifests, tars }, { leftOut, say })
    : await loadManifest(manifests, { onError: (error) => leftOut.add(`unusable lines: ${error.code}`, error.at ?? "") });
  const { minUtterance, maxUtterance, sampleRate, useCtc } = options;
  const cuts = filterCuts(all, { minUtterance, maxUtterance, sampleRate, ctc: useCtc, encode: (text) => tokenizer.encode(text), unkId: tokenizer.unkId }, leftOut);
  if (cuts.length === 0)
    throw new TrainError("TRAIN_NO_DATA", {
      at: manifests.join(", "),
      message: `no utterance is left: ${leftOut.lines().join("; ")}`,
      fix: "check --min-utterance, --max-utterance and the tokenizer",
    });
  return { cuts, leftOut, duration: cuts.reduce((sum, cut) => sum + cut.duration, 0) };
}

/**
 * What loading leaves out, each utterance counted once: audio that cannot be used, and audio that is shorter than its manifest says
 * and has too few frames for its transcript, whose CTC loss would be infinite.
 */
export function leaveOutUnusable(leftOut: LeftOut, tokensOf: (text: string) => ArrayLike<number>, useCtc: boolean): Required<Pick<LoadOptions, "accept" | "onError">> {
  return {
    accept(cut, frames) {
      const enough = frames >= minFeatureFrames && encoderFrames(frames) >= neededFrames(tokensOf(cut.text), useCtc);
      if (!enough) leftOut.addOnce("with more tokens than frames, in spite of the manifest's duration", cut.origin);
      return enough;
    },
    onError: (error, cut) => leftOut.addOnce(`unusable audio: ${error.code}`, cut.origin),
  };
}

/** The error for data of which the audio of no utterance can be used. */
export function noUsableAudio(manifests: readonly string[], count: number, leftOut: LeftOut): TrainError {
  return new TrainError("TRAIN_NO_DATA", {
    at: manifests.join(", "),
    message: `the audio of none of the ${count} utterances can be used: ${leftOut.lines().join("; ")}`,
    fix: "run serac manifest check, which names each file that cannot be used",
  });
}

/**
 * Looks for an utterance that can be used, so that validation does not fail after an epoch of training; stops at the first.
 * @throws TrainError TRAIN_NO_DATA when there is none
 */
export async function requireUsable(cuts: readonly Cut[], manifests: readonly string[], tokenizer: SentencePiece, options: TrainOptions): Promise<void> {
  const leftOut = new LeftOut();
  const { sampleRate, featureDim, useCtc } = options;
  const single = cuts.map((cut) => [cut]);
  for await (const _ of loadBatches(single, { sampleRate, featureDim, ...leaveOutUnusable(leftOut, (text) => tokenizer.encode(text), useCtc) })) return;
  throw noUsableAudio(manifests, cuts.length, leftOut);
}

/** "2,700 utterances, 0.32 h, 0.14 to 2.3 s (median 0.42)" */
export function describeCuts({ cuts, duration }: Prepared): string {
  const sorted = Float64Array.from(cuts, (cut) => cut.duration).sort();
  const at = (q: number): string => String(Number((sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] as number).toPrecision(3)));
  return `${cuts.length} utterances, ${(duration / 3600).toFixed(2)} h, ${at(0)} to ${at(1)} s (median ${at(0.5)}, 95 % below ${at(0.95)})`;
}

/** What masks and warps the features of training; undefined where that is off. */
export function specAugmentOf(options: TrainOptions): SpecAugment | undefined {
  if (!options.enableSpecAug) return undefined;
  return new SpecAugment({
    timeWarpFactor: options.specAugTimeWarpFactor,
    numFrameMasks: options.specAugNumFrameMasks,
    maxFramesMaskFraction: options.specAugMaxFramesMaskFraction,
    featuresMaskSize: options.specAugFeaturesMaskSize,
  });
}

/** The batches of an epoch, from 1. The same options and epoch give the same batches. */
export async function epochBatches(
  cuts: readonly Cut[],
  { seed, maxDuration, numBuckets, shuffle, dropLast, speedPerturb, concatenateCuts, durationFactor, gap }: TrainOptions,
  epoch: number,
): Promise<Cut[][]> {
  const random = new Random(seed * 7919 + epoch);
  let list = cuts;
  if (speedPerturb) list = list.map((cut) => perturbSpeed(cut, random.choice([0.9, 1, 1.1])));
  if (concatenateCuts) list = joinShort(list, durationFactor, gap, random);
  return bucketBatches(list, { maxDuration, numBuckets, shuffle, dropLast, seed }, epoch);
}

/** Batches of like durations, planned over all cuts; one that is longer than a batch may be is a batch of its own. */
export async function bucketBatches(cuts: readonly Cut[], options: SamplerOptions, epoch = 0): Promise<Cut[][]> {
  const source = memorySource(cuts, { where: (row) => (cuts[row] as Cut).origin });
  const sampler = await createSampler(source, { kind: "static", tooLong: "alone", numCutsForBinsEstimate: cuts.length, ...options });
  return sampler.wholeEpoch(epoch);
}

/** Joins cuts in random order to utterances of random length, at most `factor` times the longest cut. Every cut is used once. */
function joinShort(cuts: readonly Cut[], factor: number, gap: number, random: Random): Cut[] {
  const limit = factor * cuts.reduce((most, cut) => Math.max(most, cut.duration), 0);
  const joined: Cut[] = [];
  let tracks: Cut[] = [];
  let length = 0;
  let target = random.uniform() * limit;
  for (const cut of random.shuffle([...cuts])) {
    if (tracks.length > 0 && length + gap + cut.duration > target) {
      joined.push(concatenate(tracks, gap));
      tracks = [];
      length = 0;
      target = random.uniform() * limit;
    }
    length += cut.duration + (tracks.length > 0 ? gap : 0);
    tracks.push(cut);
  }
  if (tracks.length > 0) joined.push(concatenate(tracks, gap));
  return joined;
}
