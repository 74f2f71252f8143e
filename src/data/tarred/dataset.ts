/**
 * Tarred datasets: utterances of tars in their order at the speed of the disk, or in any order; shared out over ranks and workers by a plan.
 * The length is what is yielded: entries that were filtered, and those whose audio is in no tar, are not in it.
 */
import { type Audio, resampleSinc, toMono } from "../../audio/index.ts";
import { AudioError, ConfigError, FormatError, SeracError } from "../../util/errors.ts";
import { Random } from "../../util/random.ts";
import { readCutAudio } from "../audioSource.ts";
import type { Cut } from "../cut.ts";
import { openTarred } from "./open.ts";
import { type DamagePolicy, damage, type OpenedDataset, type OpenOptions, type TarredItem, type TarredShard } from "./opened.ts";
import { batchSizesFor, type PlanOptions, planShards, type ReaderShare, type ShardPlan } from "./plan.ts";
import { aheadOf, type Damaged, type Planned, type Read, readInOrder, readOne, shuffleBuffer, skipFirst } from "./reading.ts";
import type { TarredReport } from "./report.ts";

/** How to read a tarred dataset. */
export interface TarredOptions extends OpenOptions, Omit<PlanOptions, "dropLast"> {
  rank?: number;
  worker?: number;
  /** Another order of shards in each epoch, the same on all ranks; with random access another order of all utterances. */
  shuffle?: boolean;
  /** Utterances that a buffer holds, of which one is drawn at a time; 0 reads the shards as they are. */
  shuffleN?: number;
  seed?: number;
  /** `random` reads each utterance by itself, by `.idx` files that are built where absent; for plain tars only. */
  access?: "sequential" | "random";
  /** Hz to which decoded audio is resampled; as it is by default. */
  sampleRate?: number | undefined;
  /** Which channel of decoded audio, or the mean of all; all by default. */
  channel?: number | "average" | undefined;
  /** False leaves the audio undecoded. */
  decode?: boolean;
  /** Utterances that are decoded at the same time. */
  ahead?: number;
  /** Allows strategies under which some rank runs out first, for training that stops all ranks itself. */
  allowUneven?: boolean;
}

/** An utterance of a tarred dataset. */
export interface TarredUtterance {
  cut: Cut;
  /** The manifest's line, as it is; for WebDataset tars the json member. */
  entry: Record<string, unknown>;
  shard: string;
  member: string;
  /** The member as it is in the tar, of which `cut` may play a part. Copy it to keep it long: it may share its memory with its neighbours. */
  bytes: Buffer;
  /** The samples of the cut; undefined where nothing is decoded. */
  audio: Audio | undefined;
  /** True where it is read again, to fill up what another rank has more or what was damaged. */
  repeated: boolean;
}

/** What one worker of one rank reads. */
export interface TarredDataset extends AsyncIterable<TarredUtterance> {
  /** Utterances that an epoch yields here. */
  readonly length: number;
  readonly plan: ShardPlan;
  readonly report: TarredReport;
  readonly shards: readonly TarredShard[];
  /** All cuts of all shards, in order: for samplers that choose by themselves. */
  cuts(): Cut[];
  /** The utterances of an epoch from 0, from the `start`th on. The same options and epoch give the same order. */
  epoch(epoch?: number, options?: { start?: number }): AsyncGenerator<TarredUtterance>;
  /** The same in batches: as many on every rank under `even` and `repeat`. */
  batches(epoch?: number): AsyncGenerator<TarredUtterance[]>;
  /** Batches of a sampler's choice, by the places in `cuts()`; plain tars only. Damaged utterances are made up for, so that no batch is lost. */
  batchesOf(batches: Iterable<readonly { item: number; repeated: boolean }[]>): AsyncGenerator<TarredUtterance[]>;
}

/**
 * Opens a tarred dataset of NeMo or a WebDataset: all manifests and all headers are read, no audio.
 * @throws ConfigError (also SHARDS_UNEVEN, SHARDS_TOO_FEW), ManifestError (also SHARDS_DIFFER, SHARDS_EMPTY), FormatError by the policy for damage
 */
export async function tarredDataset(options: TarredOptions): Promise<TarredDataset> {
  const onWarning = options.onWarning ?? toStandardError;
  const opened = await openTarred({ ...options, onWarning, index: options.access === "random" || options.index === true });
  return datasetOf(opened, { ...options, onWarning });
}

const toStandardError = (message: string): void => void process.stderr.write(`serac: ${message}\n`);

/**
 * A dataset of what was opened.
 * @throws ConfigError CONFIG_BAD_VALUE, SHARDS_UNEVEN, SHARDS_TOO_FEW
 */
export function datasetOf({ shards, report }: OpenedDataset, options: DatasetOptions): TarredDataset {
  const { rank = 0, worker = 0, worldSize = 1, numWorkers = 1, batchSize = 1, strategy = "even", allowUneven = false, onWarning = toStandardError } = options;
  for (const [name, place, count] of [
    ["rank", rank, worldSize],
    ["worker", worker, numWorkers],
  ] as const)
    if (!Number.isInteger(place) || place < 0 || place >= count) throw new ConfigError("CONFIG_BAD_VALUE", { message: `${name} is ${place}, expected 0 to ${count - 1}` });
  for (const line of report.lines()) onWarning(line);
  const sizes = shards.map(({ path, items }) => ({ path, utterances: items.length }));
  const planOptions = { strategy, worldSize, numWorkers, batchSize };
  const plan = planShards(sizes, planOptions);
  for (const warning of plan.warnings) onWarning(warning);
  if (!plan.equalSteps && !allowUneven)
    throw new ConfigError("SHARDS_UNEVEN", {
      message: plan.warnings.find((warning) => warning.includes("hang")) ?? "ranks have different numbers of steps",
      fix: "use the strategy even or repeat",
    });
  return new Dataset(
    { ...options, onWarning },
    shards,
    report,
    plan,
    (order) =>
      planShards(
        order.map((i) => sizes[i] as (typeof sizes)[number]),
        planOptions,
      ).shares[rank * numWorkers + worker] as ReaderShare,
  );
}

/** The member's name, or the file's path. */
const nameOf = ({ cut }: TarredItem): string => cut.member?.name ?? cut.audioPath;

type DatasetOptions = Omit<TarredOptions, "manifest" | "tars">;

class Dataset implements TarredDataset {
  readonly shards: readonly TarredShard[];
  readonly report: TarredReport;
  readonly plan: ShardPlan;
  private readonly options: DatasetOptions & { onWarning: (message: string) => void };
  private readonly shareOf: (order: readonly number[]) => ReaderShare;
  private readonly share: ReaderShare;
  /** Found damaged while decoding: not tried again. */
  private readonly broken = new Set<TarredItem>();

  constructor(
    options: DatasetOptions & { onWarning: (message: string) => void },
    shards: readonly TarredShard[],
    report: TarredReport,
    plan: ShardPlan,
    shareOf: (order: readonly number[]) => ReaderShare,
  ) {
    this.options = options;
    this.shards = shards;
    this.report = report;
    this.plan = plan;
    this.shareOf = shareOf;
    this.share = shareOf(shards.map((_, i) => i));
  }

  /** Whether damaged utterances are made up for, so that no rank has fewer. */
  private get fillsUp(): boolean {
    return this.plan.strategy === "even" || this.plan.strategy === "repeat";
  }

  get length(): number {
    if (this.fillsUp || this.broken.size === 0) return this.share.utterances;
    return this.planned(this.shards.map((_, i) => i)).filter(({ item }) => !this.broken.has(item)).length;
  }

  cuts(): Cut[] {
    return this.shards.flatMap(({ items }) => items.map(({ cut }) => cut));
  }

  [Symbol.asyncIterator](): AsyncGenerator<TarredUtterance> {
    return this.epoch();
  }

  /**
   * What this worker reads, shard by shard in the given order. Under scatter and replicate a worker keeps its own shards in every epoch, so that
   * the plan's numbers hold for all of them.
   */
  private planned(order: readonly number[]): Planned[] {
    const rank = new Map(order.map((shard, i) => [shard, i]));
    const parts = this.fillsUp
      ? this.shareOf(order).parts.map((part) => ({ ...part, shard: order[part.shard] as number }))
      : [...this.share.parts].sort((a, b) => (rank.get(a.shard) as number) - (rank.get(b.shard) as number));
    return parts.flatMap(({ shard: i, from, to, repeated }) => {
      const shard = this.shards[i] as TarredShard;
      return shard.items.slice(from, to).map((item): Planned => ({ item, shard, repeated }));
    });
  }

  private order(epoch: number): number[] {
    const order = this.shards.map((_, i) => i);
    const { shuffle = false, seed = 0 } = this.options;
    return shuffle ? new Random(seed * 1_000_003 + epoch).shuffle(order) : order;
  }

  async *epoch(epoch = 0, { start = 0 }: { start?: number } = {}): AsyncGenerator<TarredUtterance> {
    const { shuffle = false, shuffleN = 0, seed = 0, access = "sequential", rank = 0, worker = 0, numWorkers = 1, ahead = 8, onDamaged = "throw", onWarning } = this.options;
    // A stream of this worker's own; the order of the shards above is common to all.
    const random = new Random((seed * 1_000_003 + epoch) * 8191 + rank * numWorkers + worker + 1);
    const planned = this.planned(this.order(epoch));
    const known = this.fillsUp ? planned : planned.filter(({ item }) => !this.broken.has(item));
    let reads: AsyncIterable<Read | Damaged>;
    if (access === "random") {
      const list = (shuffle ? random.shuffle([...known]) : known).slice(start);
      reads = aheadOf(list, ahead, (one) => readOne(one));
    } else {
      const inOrder = readInOrder(known);
      const shuffled = shuffleN > 1 ? shuffleBuffer(inOrder, shuffleN, random) : inOrder;
      reads = start > 0 ? skipFirst(shuffled, start) : shuffled;
    }
    const good: Read[] = [];
    let owed = 0;
    for await (const one of aheadOf(reads, ahead, (read) => this.finish(read))) {
      if ("error" in one) {
        damage(one.error, onDamaged as DamagePolicy, this.report, onWarning);
        this.broken.add(one.item);
        if (!this.fillsUp) continue;
        owed++;
      } else {
        if (good.length < 16) good.push({ ...one.read, bytes: Buffer.from(one.read.bytes) });
        yield one.utterance;
      }
      for (; owed > 0 && good.length > 0; owed--) yield await this.again(good[owed % good.length] as Read);
    }
    if (owed > 0)
      throw new FormatError("SHARDS_ALL_DAMAGED", {
        at: this.shards[0]?.path ?? "",
        message: `all ${owed} utterances of rank ${rank}, worker ${worker} are damaged`,
        fix: "look at the tars: serac tar verify",
      });
  }

  private async again(read: Read): Promise<TarredUtterance> {
    this.report.add("repeated", `${read.shard.path}:${nameOf(read.item)}`);
    const done = await this.finish(read);
    if ("error" in done) throw done.error;
    return { ...done.utterance, repeated: true };
  }

  private async finish(read: Read | Damaged): Promise<{ utterance: TarredUtterance; read: Read } | Damaged> {
    if ("error" in read) return read;
    const { item, shard, bytes, repeated } = read;
    try {
      const audio = this.options.decode === false ? undefined : await this.convert(await readCutAudio(item.cut, shard.compression === "files" ? undefined : bytes), item.cut);
      return { read, utterance: { cut: item.cut, entry: item.value, shard: shard.path, member: nameOf(item), bytes, audio, repeated } };
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      return { ...read, error };
    }
  }

  /** The channels and the rate that were asked for. */
  private async convert(audio: Audio, { audioPath, member }: Cut): Promise<Audio> {
    const { channel, sampleRate } = this.options;
    let { channels } = audio;
    if (channel === "average") channels = [toMono(audio)];
    else if (channel !== undefined) {
      const chosen = channels[channel];
      if (!chosen) throw new AudioError("AUDIO_BAD_RANGE", { at: member ? `${audioPath}:${member.name}` : audioPath, message: `channel ${channel} of ${channels.length}` });
      channels = [chosen];
    }
    if (sampleRate === undefined || sampleRate === audio.sampleRate) return { ...audio, channels };
    return { sampleRate, channels: await Promise.all(channels.map((samples) => resampleSinc(samples, audio.sampleRate, sampleRate))) };
  }

  async *batchesOf(batches: Iterable<readonly { item: number; repeated: boolean }[]>): AsyncGenerator<TarredUtterance[]> {
    const { onDamaged = "throw", onWarning = toStandardError } = this.options;
    const all = this.shards.flatMap((shard) => shard.items.map((item): Planned => ({ item, shard, repeated: false })));
    let last: Read | undefined;
    const read = (batch: readonly { item: number; repeated: boolean }[]) =>
      Promise.all(batch.map(async ({ item, repeated }) => this.finish(await readOne({ ...(all[item] as Planned), repeated }))));
    for await (const results of aheadOf(batches, 2, read)) {
      const utterances: TarredUtterance[] = [];
      for (const one of results) {
        if ("error" in one) damage(one.error, onDamaged, this.report, onWarning);
        else {
          last = one.read;
          utterances.push(one.utterance);
        }
      }
      if (utterances.length === 0 && last) utterances.push(await this.again(last));
      if (utterances.length > 0) yield utterances;
    }
  }

  async *batches(epoch = 0): AsyncGenerator<TarredUtterance[]> {
    const { batchSize = 1 } = this.options;
    const { utterances, steps } = this.share;
    const sizes = this.plan.strategy === "even" ? batchSizesFor(utterances, batchSize, steps) : undefined;
    let batch: TarredUtterance[] = [];
    let step = 0;
    for await (const utterance of this.epoch(epoch)) {
      batch.push(utterance);
      if (batch.length < (sizes?.[step] ?? batchSize)) continue;
      yield batch;
      batch = [];
      step++;
    }
    if (batch.length > 0) yield batch;
  }
}
