/** Data that was opened by whatever names it: what training leaves out, what is said of the rest, and how it is sampled. Metadata alone is read. */
import {
  type BatchSampler,
  type ConfigNode,
  createSampler,
  DrawnSpeedSource,
  type ItemSource,
  LeftOut,
  type OpenedSources,
  openSources,
  type SamplerOptions,
  type SourceCut,
  utteranceFilter,
} from "../data/index.ts";
import type { SentencePiece } from "../text/index.ts";
import { ManifestError, messageOf, TrainError } from "../util/errors.ts";
import type { CutTransform } from "./augment.ts";
import { type DataStatistics, dataStatistics } from "./dataStatistics.ts";
import type { TrainOptions } from "./options.ts";

/** Data that was opened: what to sample from and how, and what was left out. */
export interface OpenedData extends DataStatistics {
  /** What messages call it: manifests, or where the block stands. */
  name: string;
  /** @throws what `createSampler` throws */
  createSampler(): Promise<CutSampler>;
  sources: number;
  infinite: boolean;
  leftOut: LeftOut;
  transforms: CutTransform[];
  /** Seeds augmentation. */
  seed: number;
  /** Seconds of a batch, padding included, at most: what schedules go by. */
  batchSeconds: number;
}

/** A sampler and what it says of itself. */
export interface CutSampler {
  sampler: BatchSampler<SourceCut>;
  warnings: readonly string[];
  leftOut: LeftOut;
}

/** Who opens data, and for whom. */
export interface OpenContext {
  options: TrainOptions;
  /** Names of the options that were given. */
  given: ReadonlySet<string>;
  tokenizer: SentencePiece;
  /** Names the tokenizer: what depends on it is kept in indices under this name. */
  tokenizerKey: string;
  say: (line: string) => void;
}

/** What is known of data before anything of it is sampled. */
export type DescribedData = Pick<OpenedData, "name" | "sources" | "infinite" | "leftOut" | keyof DataStatistics>;

/** Frames that an utterance shall have besides its symbols: June 2026's recipe leaves out those with T - 2 < tokens, the seed's those with T < tokens. */
export const spareFramesOf = ({ recipe }: Pick<TrainOptions, "recipe">): number => (recipe === "2026" ? 2 : 0);

/** Seconds of an utterance. */
export interface UtteranceBounds {
  min: number;
  max: number;
}

export const unbounded: UtteranceBounds = { min: 0, max: Number.POSITIVE_INFINITY };

/** Opens the keys of a block, with what training leaves out. */
export async function openConfig(keys: ConfigNode, { options, tokenizer, tokenizerKey, say }: OpenContext, bounds: UtteranceBounds): Promise<OpenedSources> {
  // Filter and counter look at the same text, one after the other.
  let last: { text: string; ids: ArrayLike<number> } | undefined;
  const encode = (text: string): ArrayLike<number> => {
    if (last?.text !== text) last = { text, ids: tokenizer.encode(text) };
    return last.ids;
  };
  try {
    return await openSources(keys, {
      countTokens: (text) => encode(text).length,
      countAlways: true,
      tokensKey: tokenizerKey,
      filter: {
        key: `${tokenizerKey}-${bounds.min}-${bounds.max}-${options.sampleRate}-${options.useCtc}-${options.recipe}`.replace(/[^\w-]/g, "_"),
        why: utteranceFilter({
          minUtterance: bounds.min,
          maxUtterance: bounds.max,
          sampleRate: options.sampleRate,
          ctc: options.useCtc,
          spareFrames: spareFramesOf(options),
          encode,
          unkId: tokenizer.unkId,
        }),
      },
      onBad: options.onBad,
      onWarning: say,
    });
  } catch (error) {
    if (!(error instanceof ManifestError) || error.code !== "SOURCE_EMPTY") throw error;
    throw new TrainError("TRAIN_NO_DATA", {
      at: error.at,
      message: messageOf(error),
      fix: "check --min-utterance, --max-utterance and the tokenizer; serac manifest check names lines that cannot be used",
      cause: error,
    });
  }
}

/** Counts utterances, their seconds and their tokens. */
export async function describe(name: string, { leaves, infinite }: Pick<OpenedSources, "leaves" | "infinite">): Promise<DescribedData> {
  const leftOut = new LeftOut();
  for (const leaf of leaves) leftOut.addAll(leaf.leftOut);
  return { name, infinite, leftOut, sources: leaves.length, ...(await dataStatistics(leaves.map(({ source }) => source))) };
}

/** Items of a source, in order. */
export async function* itemsOf(source: ItemSource<unknown>): AsyncGenerator<{ ref: number; duration: number }> {
  const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
  for (let block = await stream.read(1024); block; block = await stream.read(1024))
    for (let i = 0; i < block.count; i++) yield { ref: block.refs[i] as number, duration: block.durations[i] as number };
  await stream.close();
}

const speeds = [0.9, 1, 1.1];

/** The source, played at other speeds where that is asked for. */
export function withSpeeds(source: ItemSource<SourceCut>, { speedPerturb, seed, sampleRate }: TrainOptions): ItemSource<SourceCut> {
  return speedPerturb ? new DrawnSpeedSource(source, { factors: speeds, seed, sampleRate }) : source;
}

/** The sampler of a source. */
export async function samplerOf(source: ItemSource<SourceCut>, options: SamplerOptions): Promise<CutSampler> {
  const sampler = await createSampler(source, options);
  return { sampler, warnings: sampler.warnings, leftOut: sampler.leftOut };
}
