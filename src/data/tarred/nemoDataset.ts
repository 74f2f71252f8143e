/**
 * Datasets by the keys of NeMo's train_ds: tarred or not, in buckets, concatenated, or semi-sorted. Batches come out; under the strategies
 * `even` and `repeat`, and wherever the numbers allow it under NeMo's own, every rank has as many. What would hang is an error beforehand.
 */
import { ConfigError } from "../../util/errors.ts";
import { NumpyRandom } from "../../util/numpyRandom.ts";
import { Random } from "../../util/random.ts";
import { datasetSpecs, type ShardSpec } from "../shards.ts";
import { concatDraws } from "./concat.ts";
import { datasetOf, type TarredDataset, type TarredOptions, type TarredUtterance } from "./dataset.ts";
import { type NemoDatasetConfig, readNemoConfig } from "./nemoConfig.ts";
import { openFiles, openTarred } from "./open.ts";
import { batchSizesFor } from "./plan.ts";
import { semiSortedBatches } from "./semiSorted.ts";

/** What a config does not say. */
export interface NemoDatasetOptions extends Pick<TarredOptions, "rank" | "worldSize" | "worker" | "seed" | "onDamaged" | "onWarning" | "decode" | "ahead" | "allowUneven"> {}

/** Batches for one worker of one rank. */
export interface NemoDataset {
  /** Utterances of an epoch here. */
  readonly length: number;
  /** Batches of an epoch here. */
  readonly steps: number;
  /** The datasets: one, or one a bucket. */
  readonly datasets: readonly TarredDataset[];
  /** The batches of an epoch from 0. */
  batches(epoch?: number): AsyncGenerator<TarredUtterance[]>;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Batch sizes of the datasets: one number b for K of them is K * b, ..., 2 * b, b, so that the shortest utterances come in the largest batches. */
export function bucketBatchSizes(size: number | readonly number[], buckets: number): number[] {
  return typeof size === "number" ? Array.from({ length: buckets }, (_, i) => (buckets - i) * size) : [...size];
}

/**
 * Opens what a config names.
 * @param given the keys of train_ds, as YAML gives them
 * @throws ConfigError CONFIG_BAD_VALUE, CONFIG_UNKNOWN_OPTION, SHARDS_UNEVEN; what tarredDataset throws
 */
export async function nemoDataset(given: Readonly<Record<string, unknown>>, options: NemoDatasetOptions = {}): Promise<NemoDataset> {
  const onWarning = options.onWarning ?? ((message: string) => void process.stderr.write(`serac: ${message}\n`));
  const config = readNemoConfig(given, onWarning);
  const manifests = datasetSpecs(config.manifestFilepath as ShardSpec, "manifest_filepath");
  const isTarred = config.isTarred ?? config.tarredAudioFilepaths !== undefined;
  if (!isTarred && config.tarredAudioFilepaths !== undefined) onWarning("is_tarred is false: the tars of tarred_audio_filepaths are not read");
  const tars = isTarred ? datasetSpecs(config.tarredAudioFilepaths as ShardSpec, "tarred_audio_filepaths") : undefined;
  if (config.shardManifests && manifests.some((list, i) => list.length === 1 && (tars?.[i]?.length ?? 0) > 1))
    onWarning("shard_manifests is true, but there is one manifest for several tars");
  const { worldSize = 1, rank = 0, seed = 0 } = options;
  const random = isTarred ? config.useSemiSortedBatching : config.shuffle || config.isConcat;
  const sizes = config.bucketingBatchSize === undefined ? undefined : bucketBatchSizes(config.bucketingBatchSize, manifests.length);
  const shared = {
    ...options,
    onWarning,
    worldSize,
    rank,
    seed,
    numWorkers: Math.max(1, config.numWorkers),
    // Files have no shards to scatter: they are shared out evenly.
    strategy: isTarred ? config.tarredShardStrategy : ("even" as const),
    access: random ? ("random" as const) : ("sequential" as const),
    shuffle: config.shuffle || (config.isConcat && config.concatShuffle),
    sampleRate: config.sampleRate,
    channel: config.channelSelector,
    minDuration: config.minDuration,
    maxDuration: config.maxDuration,
    maxUtts: config.maxUtts === 0 ? undefined : config.maxUtts,
    allowUneven: true, // what matters is the sum over the datasets, below
  };
  const datasets: TarredDataset[] = [];
  for (const [i, manifest] of manifests.entries()) {
    const batchSize = sizes?.[i] ?? config.batchSize;
    const opened = tars ? await openTarred({ ...shared, manifest, tars: tars[i] as string[], index: random }) : await openFiles({ ...shared, manifest });
    datasets.push(datasetOf(opened, { ...shared, batchSize, shuffleN: config.shuffleN ?? (config.shuffle ? 4 * batchSize : 0) }));
  }
  if (config.useSemiSortedBatching) return semiSorted(datasets[0] as TarredDataset, config, shared);
  return config.isConcat ? concatenated(datasets, config, shared) : chained(datasets, sizes, config, { ...shared, allowUneven: options.allowUneven ?? false });
}

type Shared = Required<Pick<NemoDatasetOptions, "rank" | "worldSize" | "seed" | "allowUneven">> & { numWorkers: number; worker?: number; onWarning: (message: string) => void };

/** Buckets one after another, each of them whole, `bucketing_weights` times. */
function chained(
  datasets: readonly TarredDataset[],
  sizes: readonly number[] | undefined,
  config: NemoDatasetConfig,
  { rank, worker = 0, worldSize, numWorkers, seed, allowUneven, onWarning }: Shared,
): NemoDataset {
  const weights = config.bucketingWeights ?? datasets.map(() => 1);
  const expanded = datasets.flatMap((dataset, i) => Array.from({ length: weights[i] as number }, () => ({ dataset, size: sizes?.[i] })));
  const readers = worldSize * numWorkers;
  const me = rank * numWorkers + worker;
  const strategy = datasets[0]?.plan.strategy;
  const fixed = strategy === "even" || strategy === "repeat";
  const { batchSize, dropLast } = config;
  /** What each reader has of all datasets together, in utterances and in batches. */
  const counts = Array.from({ length: readers }, (_, i) => sum(expanded.map(({ dataset }) => dataset.plan.shares[i]?.utterances ?? 0)));
  const steps = ((): number[] => {
    if (sizes) return Array.from({ length: readers }, (_, i) => sum(expanded.map(({ dataset }) => dataset.plan.shares[i]?.steps ?? 0)));
    if (!fixed) return counts.map((count) => (dropLast ? Math.floor(count / batchSize) : Math.ceil(count / batchSize)));
    const least = Math.min(...counts);
    return counts.map(() => (dropLast ? Math.floor(least / batchSize) : Math.min(Math.ceil(Math.max(...counts) / batchSize), least)));
  })();
  const ofRank = Array.from({ length: worldSize }, (_, r) => sum(steps.slice(r * numWorkers, (r + 1) * numWorkers)));
  if (new Set(ofRank).size > 1 && !allowUneven)
    throw new ConfigError("SHARDS_UNEVEN", {
      message: `the ranks have ${ofRank.join(", ")} steps: rank ${ofRank.indexOf(Math.min(...ofRank))} runs out first, and training that waits for all ranks would hang`,
      fix: "set tarred_shard_strategy to even or repeat",
    });
  const mine = steps[me] as number;
  const count = counts[me] as number;
  const plain = dropLast ? Array.from({ length: mine }, () => batchSize) : fixed ? batchSizesFor(count, batchSize, mine) : undefined;
  const length = dropLast && !sizes ? mine * batchSize : count;
  if (length < count) onWarning(`drop_last leaves out ${count - length} utterances in each epoch of rank ${rank}`);
  return {
    length,
    steps: mine,
    datasets,
    async *batches(epoch = 0) {
      if (mine === 0) return; // drop_last, and some rank has no full batch
      const order = bucketOrder(config.bucketingStrategy, expanded.length, epoch, seed, rank);
      const seen = new Map<TarredDataset, number>();
      let batch: TarredUtterance[] = [];
      let step = 0;
      for (const i of order) {
        const { dataset, size } = expanded[i] as (typeof expanded)[number];
        const round = seen.get(dataset) ?? 0;
        seen.set(dataset, round + 1);
        const own = epoch * Math.max(...weights) + round;
        if (size !== undefined) {
          yield* dataset.batches(own);
          continue;
        }
        for await (const utterance of dataset.epoch(own)) {
          batch.push(utterance);
          if (batch.length < (plain?.[step] ?? batchSize)) continue;
          yield batch;
          batch = [];
          if (++step === mine && dropLast) return;
        }
      }
      if (batch.length > 0 && !dropLast) yield batch;
    },
  };
}

/** The order of the buckets in an epoch, as NeMo's with the same seeds. */
export function bucketOrder(strategy: NemoDatasetConfig["bucketingStrategy"], buckets: number, epoch: number, seed: number, rank: number): number[] {
  if (strategy === "fixed_order") return Array.from({ length: buckets }, (_, i) => i);
  // NeMo draws fully_randomized's seed from Python's global numbers; here the run's seed gives it.
  const generator = new NumpyRandom(strategy === "synced_randomized" ? 0 : new Random(seed).integer(0, 30001) + rank);
  for (let i = 0; i < epoch; i++) generator.permutation(buckets);
  return generator.permutation(buckets);
}

/** Draws from datasets, each of which begins again when it is at its end. */
function concatenated(datasets: readonly TarredDataset[], config: NemoDatasetConfig, { rank, worker = 0, numWorkers, worldSize, seed, onWarning }: Shared): NemoDataset {
  const { batchSize, dropLast, concatSamplingScale, concatSamplingSeed } = config;
  const least = Math.min(...Array.from({ length: worldSize * numWorkers }, (_, i) => sum(datasets.map(({ plan }) => plan.shares[i]?.utterances ?? 0))));
  const drawn = Math.floor(least * concatSamplingScale);
  const steps = dropLast ? Math.floor(drawn / batchSize) : Math.ceil(drawn / batchSize);
  const length = dropLast ? steps * batchSize : drawn;
  const empty = datasets.findIndex(({ plan }) => (plan.shares[rank * numWorkers + worker]?.utterances ?? 0) === 0);
  if (empty >= 0)
    throw new ConfigError("SHARDS_TOO_FEW", {
      message: `dataset ${empty} has nothing for rank ${rank}, worker ${worker}`,
      fix: "use fewer ranks or workers, or the strategy even",
    });
  onWarning(`is_concat: an epoch draws ${length} utterances on each of ${worldSize * numWorkers} readers; some may come several times and others not at all`);
  return {
    length,
    steps,
    datasets,
    async *batches(epoch = 0) {
      const draws = concatDraws(
        datasets.map(({ plan }) => plan.utterances),
        config,
        (concatSamplingSeed ?? seed) + epoch,
      );
      const rounds = datasets.map(() => 0);
      const open = datasets.map((dataset) => dataset.epoch(epoch * 1000));
      let batch: TarredUtterance[] = [];
      for (let i = 0; i < length; i++) {
        const at = draws.next().value as number;
        let next = await (open[at] as (typeof open)[number]).next();
        if (next.done) {
          rounds[at] = (rounds[at] as number) + 1;
          open[at] = (datasets[at] as TarredDataset).epoch(epoch * 1000 + (rounds[at] as number));
          next = await (open[at] as (typeof open)[number]).next();
          if (next.done) return; // everything in it is damaged, and reported
        }
        batch.push((rounds[at] as number) > 0 ? { ...next.value, repeated: true } : next.value);
        if (batch.length < batchSize) continue;
        yield batch;
        batch = [];
      }
      for (const generator of open) await generator.return(undefined);
      if (batch.length > 0) yield batch;
    },
  };
}

/** Batches of nearly the same length over all ranks. */
function semiSorted(dataset: TarredDataset, config: NemoDatasetConfig, { rank, worker = 0, worldSize, numWorkers, onWarning }: Shared): NemoDataset {
  const cuts = dataset.cuts();
  const options = {
    batchSize: config.batchSize,
    worldSize,
    dropLast: config.dropLast,
    shuffle: config.shuffle,
    randomizationFactor: config.randomizationFactor,
    seed: config.semiSortSamplerSeed,
  };
  const durations = cuts.map(({ duration }) => duration);
  const mine = (epoch: number): { items: number[]; repeated: number }[] =>
    semiSortedBatches(durations, { ...options, epoch })[rank]?.filter((_, i) => i % numWorkers === worker) ?? [];
  const first = mine(0);
  const repeated = sum(first.map((batch) => batch.repeated));
  if (repeated > 0) onWarning(`semi-sorted batches: ${repeated} utterances of rank ${rank}, worker ${worker} come twice in an epoch, so that all ranks have as many batches`);
  if (config.dropLast && cuts.length % config.batchSize > 0) onWarning(`drop_last leaves out ${cuts.length % config.batchSize} utterances in each epoch`);
  return {
    length: sum(first.map(({ items }) => items.length)),
    steps: first.length,
    datasets: [dataset],
    batches: (epoch = 0) => dataset.batchesOf(mine(epoch).map(({ items, repeated }) => items.map((item, i) => ({ item, repeated: i >= items.length - repeated })))),
  };
}
