/** Batches dealt out to ranks: as many for each, whatever is left at the end. */
import { ConfigError } from "../../util/errors.ts";
import type { BatchMaker, ItemBatch } from "./batchMaker.ts";
import type { Json } from "./source.ts";

/** Steps of all ranks. */
export interface GroupMaker {
  /** @returns a batch for each rank; undefined at the end, and at every call after it */
  next(): Promise<ItemBatch[] | undefined>;
  state(): Json;
  held(): number[];
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

  state(): Json {
    return { maker: this.maker.state() };
  }

  held(): number[] {
    return this.maker.held();
  }

  close(): Promise<void> {
    return this.maker.close();
  }
}

/** What SeracRanks saves. */
export interface SavedGroups {
  pending: ItemBatch[] | null;
  last: ItemBatch[] | null;
  over: boolean;
}

/**
 * Every item once and as many steps for each rank: one step is held back, so that when the last one falls short, its batches can be halved,
 * or single items taken over from the step before. An item is repeated only where even that does not give each rank one.
 */
export class SeracRanks implements GroupMaker {
  private readonly maker: BatchMaker;
  private readonly worldSize: number;
  private readonly dropLast: boolean;
  private readonly name: string;
  private readonly dropped: (items: number) => void;
  private pending: ItemBatch[] | undefined;
  private last: ItemBatch[] | undefined;
  private over = false;

  constructor(
    maker: BatchMaker,
    { worldSize, dropLast, name, dropped }: { worldSize: number; dropLast: boolean; name: string; dropped: (items: number) => void },
    saved?: SavedGroups,
  ) {
    this.maker = maker;
    this.worldSize = worldSize;
    this.dropLast = dropLast;
    this.name = name;
    this.dropped = dropped;
    if (saved) {
      this.pending = saved.pending ?? undefined;
      this.last = saved.last ?? undefined;
      this.over = saved.over;
    }
  }

  async next(): Promise<ItemBatch[] | undefined> {
    const { worldSize, maker } = this;
    if (worldSize === 1) {
      const batch = await maker.next();
      return batch && [batch];
    }
    if (this.over) {
      const { last } = this;
      this.last = undefined;
      return last;
    }
    this.pending ??= await draw(maker, worldSize);
    const group = this.pending;
    this.pending = undefined;
    if (group.length < worldSize) {
      this.over = true;
      return this.short(group);
    }
    const following = await draw(maker, worldSize);
    if (following.length === worldSize) {
      this.pending = following;
      return group;
    }
    this.over = true;
    if (following.length === 0) return group;
    if (this.dropLast) this.dropped(itemsOf(following));
    else this.last = share(following, worldSize, group);
    return group;
  }

  /** There is no whole step in all of the source. */
  private short(group: ItemBatch[]): ItemBatch[] | undefined {
    if (group.length === 0) return undefined;
    if (this.dropLast) {
      this.dropped(itemsOf(group));
      return undefined;
    }
    const count = itemsOf(group);
    if (count < this.worldSize)
      throw new ConfigError("SAMPLER_TOO_FEW", { at: this.name, message: `${count} utterances for ${this.worldSize} ranks`, fix: "train on fewer ranks, or on more data" });
    return share(group, this.worldSize, []);
  }

  state(): Json {
    const copy = (group: ItemBatch[] | undefined): Json => group?.map(({ refs, durations, bucket, repeated }) => ({ refs, durations, bucket, repeated })) ?? null;
    return { maker: this.maker.state(), pending: copy(this.pending), last: copy(this.last), over: this.over };
  }

  held(): number[] {
    return [...(this.pending ?? []), ...(this.last ?? [])].flatMap(({ refs }) => refs).concat(this.maker.held());
  }

  close(): Promise<void> {
    return this.maker.close();
  }
}

/** Makes `count` batches of fewer: the largest are halved; where there are too few items, some come from `before`, whose batches shrink. */
function share(group: readonly ItemBatch[], count: number, before: ItemBatch[]): ItemBatch[] {
  const parts = [...group];
  while (parts.length < count) {
    const largest = parts.reduce((best, part, i) => (part.refs.length > (parts[best] as ItemBatch).refs.length ? i : best), 0);
    const { refs, durations, bucket } = parts[largest] as ItemBatch;
    if (refs.length < 2) break;
    const half = refs.length >> 1;
    parts[largest] = { refs: refs.slice(0, refs.length - half), durations: durations.slice(0, refs.length - half), bucket, repeated: 0 };
    parts.push({ refs: refs.slice(refs.length - half), durations: durations.slice(refs.length - half), bucket, repeated: 0 });
  }
  while (parts.length < count) {
    const largest = before.reduce((best, batch) => (batch.refs.length > best.refs.length ? batch : best));
    if (largest.refs.length < 2) break;
    parts.push(single(largest.refs.pop() as number, largest.durations.pop() as number, largest.bucket));
  }
  for (let i = 0; parts.length < count; i++) {
    const { refs, durations, bucket } = (i < before.length ? before[i] : parts[i - before.length]) as ItemBatch;
    parts.push(single(refs[0] as number, durations[0] as number, bucket, 1));
  }
  return parts;
}
