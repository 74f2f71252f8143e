/** Batches dealt out to ranks: as many for each, whatever is left at the end. */
import { ConfigError } from "../../util/errors.ts";
import { type BatchMaker, copyBatch, type ItemBatch } from "./batchMaker.ts";
import type { Json } from "./source.ts";

/** Steps of all ranks. */
export interface GroupMaker {
  /** @returns a batch for each rank; undefined at the end, and at every call after it */
  next(): Promise<ItemBatch[] | undefined>;
  /** Steps of the epoch, where they are known beforehand. */
  readonly steps?: number | undefined;
  /** Items that no batch has because it would not be full, where that is known beforehand. */
  readonly dropped?: number | undefined;
  /** As BatchMaker's. */
  mark(): () => Json;
  close(): Promise<void>;
}

async function draw(maker: BatchMaker, count: number): Promise<ItemBatch[]> {
  const group: ItemBatch[] = [];
  while (group.length < count) {
    const batch = await maker.next();
    if (!batch) break;
    group.push(batch);
  }
  return group;
}

const stepsOf = ({ length }: BatchMaker, worldSize: number, dropLast: boolean): number | undefined =>
  length === undefined ? undefined : dropLast ? Math.floor(length / worldSize) : Math.ceil(length / worldSize);
const itemsOf = (group: readonly ItemBatch[]): number => group.reduce((sum, { refs }) => sum + refs.length, 0);
const single = (ref: number, duration: number, bucket: number, repeated = 0): ItemBatch => ({ refs: [ref], durations: [duration], bucket, repeated });

/** As lhotse does: what is left at the end is joined and cut in as many parts as there are ranks; cuts are repeated where they are too few. */
export class LhotseRanks implements GroupMaker {
  private readonly maker: BatchMaker;
  private readonly worldSize: number;
  private readonly dropLast: boolean;

  constructor(maker: BatchMaker, worldSize: number, dropLast: boolean) {
    this.maker = maker;
    this.worldSize = worldSize;
    this.dropLast = dropLast;
  }

  get steps(): number | undefined {
    return stepsOf(this.maker, this.worldSize, this.dropLast);
  }

  async next(): Promise<ItemBatch[] | undefined> {
    const { worldSize } = this;
    const group = await draw(this.maker, worldSize);
    if (group.length === worldSize) return group;
    if (group.length === 0 || this.dropLast) return undefined;
    const refs = group.flatMap((batch) => batch.refs);
    const durations = group.flatMap((batch) => batch.durations);
    const count = refs.length;
    while (refs.length < worldSize) {
      const more = Math.min(worldSize - refs.length, refs.length);
      refs.push(...refs.slice(0, more));
      durations.push(...durations.slice(0, more));
    }
    const size = Math.floor(refs.length / worldSize);
    const longer = refs.length % worldSize;
    let from = 0;
    return Array.from({ length: worldSize }, (_, rank) => {
      const to = from + size + (rank < longer ? 1 : 0);
      const part = { refs: refs.slice(from, to), durations: durations.slice(from, to), bucket: (group[0] as ItemBatch).bucket, repeated: Math.max(0, to - Math.max(from, count)) };
      from = to;
      return part;
    });
  }

  mark(): () => Json {
    const maker = this.maker.mark();
    return () => ({ maker: maker() });
  }

  close(): Promise<void> {
    return this.maker.close();
  }
}

/** What SeracRanks saves. */
export interface SavedGroups {
  reserve: ItemBatch[][];
  last: ItemBatch[] | null;
  over: boolean;
  drawn: boolean;
}

/** Items of a step that other batches could have. */
const spare = (group: readonly ItemBatch[]): number => itemsOf(group) - group.length;

/**
 * Every item once and as many steps for each rank. Where the last step falls short, its batches are halved; where even its items are too few,
 * single ones come from steps that are held back for that: the latest ones that have worldSize - 1 to spare between them. So an item is repeated
 * only where a whole epoch has fewer items than steps times ranks.
 */
export class SeracRanks implements GroupMaker {
  private readonly maker: BatchMaker;
  private readonly worldSize: number;
  private readonly dropLast: boolean;
  private readonly name: string;
  private readonly reserve: ItemBatch[][] = [];
  private last: ItemBatch[] | undefined;
  private over = false;
  /** There was a whole step. */
  private drawn = false;

  constructor(maker: BatchMaker, { worldSize, dropLast, name }: { worldSize: number; dropLast: boolean; name: string }, saved?: SavedGroups) {
    this.maker = maker;
    this.worldSize = worldSize;
    this.dropLast = dropLast;
    this.name = name;
    if (saved) {
      this.reserve.push(...saved.reserve);
      this.last = saved.last ?? undefined;
      this.over = saved.over;
      this.drawn = saved.drawn;
    }
  }

  get steps(): number | undefined {
    return stepsOf(this.maker, this.worldSize, this.dropLast);
  }

  get dropped(): number | undefined {
    return this.maker.dropped;
  }

  async next(): Promise<ItemBatch[] | undefined> {
    const { worldSize, maker, reserve } = this;
    if (worldSize === 1) {
      const batch = await maker.next();
      return batch && [batch];
    }
    while (!this.over) {
      const group = await draw(maker, worldSize);
      if (group.length < worldSize) {
        this.over = true;
        if (group.length > 0 && !this.dropLast) this.last = this.lastOf(group);
        break;
      }
      this.drawn = true;
      if (spare(group) === 0) return group;
      reserve.push(group);
      const left = reserve.reduce((sum, one, i) => (i === 0 ? 0 : sum + spare(one)), 0);
      if (left >= worldSize - 1) return reserve.shift();
    }
    const group = reserve.shift() ?? this.last;
    if (group === this.last) this.last = undefined;
    return group;
  }

  private lastOf(group: readonly ItemBatch[]): ItemBatch[] {
    const { worldSize, reserve } = this;
    if (!this.drawn && itemsOf(group) < worldSize)
      throw new ConfigError("SAMPLER_TOO_FEW", {
        at: this.name,
        message: `${itemsOf(group)} utterance${itemsOf(group) === 1 ? "" : "s"} for ${worldSize} ranks`,
        fix: "train on fewer ranks, or on more data",
      });
    return share(group, worldSize, reserve.flat());
  }

  mark(): () => Json {
    const maker = this.maker.mark();
    const reserve = this.reserve.map((group) => group.map(copyBatch)); // batches of the reserve can still shrink
    const last = this.last?.map(copyBatch) ?? null;
    const { over, drawn } = this;
    return () => ({ maker: maker(), reserve: reserve.map((group) => group.map((batch) => ({ ...batch }))), last: last?.map((batch) => ({ ...batch })) ?? null, over, drawn });
  }

  close(): Promise<void> {
    return this.maker.close();
  }
}

/**
 * Makes `count` batches of fewer: the largest are halved; where there are too few items, some come from `before`, whose batches shrink; where these
 * have none to spare, items are repeated.
 */
function share(group: readonly ItemBatch[], count: number, before: readonly ItemBatch[]): ItemBatch[] {
  const parts = [...group];
  const largestOf = (batches: readonly ItemBatch[]): number => batches.reduce((best, { refs }, i) => (refs.length > (batches[best] as ItemBatch).refs.length ? i : best), 0);
  while (parts.length < count) {
    const largest = largestOf(parts);
    const { refs, durations, bucket } = parts[largest] as ItemBatch;
    if (refs.length < 2) break;
    const half = refs.length >> 1;
    parts[largest] = { refs: refs.slice(0, refs.length - half), durations: durations.slice(0, refs.length - half), bucket, repeated: 0 };
    parts.push({ refs: refs.slice(refs.length - half), durations: durations.slice(refs.length - half), bucket, repeated: 0 });
  }
  while (parts.length < count && before.length > 0) {
    const { refs, durations, bucket } = before[largestOf(before)] as ItemBatch;
    if (refs.length < 2) break;
    parts.push(single(refs.pop() as number, durations.pop() as number, bucket));
  }
  const own = parts.length;
  for (let i = 0; parts.length < count; i++) {
    const { refs, durations, bucket } = parts[i % own] as ItemBatch;
    parts.push(single(refs[0] as number, durations[0] as number, bucket, 1));
  }
  return parts;
}
