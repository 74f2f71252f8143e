/** Puts an epoch together: the maker of batches that the options name, and the dealing out of its batches to ranks. */
import { PythonRandom } from "../../util/pythonRandom.ts";
import { Random } from "../../util/random.ts";
import { LeftOut } from "../filter.ts";
import { heldRefs } from "./batchMaker.ts";
import type { Buckets } from "./bins.ts";
import { ColumnSource } from "./columnSource.ts";
import { type Feed, ItemList } from "./feed.ts";
import { LhotseBucketing } from "./lhotseBucketing.ts";
import { LhotseDynamic } from "./lhotseDynamic.ts";
import { LhotseSimple, LhotseStatic } from "./lhotseEager.ts";
import { Filling } from "./limits.ts";
import { type GroupMaker, LhotseRanks, SeracRanks } from "./ranks.ts";
import type { SamplerSettings } from "./samplerOptions.ts";
import { SeracBucketing } from "./seracBucketing.ts";
import { SeracPlanned } from "./seracPlanned.ts";
import type { EpochOptions, ItemSource, Json, StreamPosition } from "./source.ts";

/** What the parts of an epoch save, as far as the sampler looks into it. */
export interface SavedEpoch {
  maker?: { feed?: { stream: Json; ended: boolean; passed: number } };
}

/** What an epoch is made of. */
export interface EpochMaking {
  settings: SamplerSettings;
  source: ItemSource<unknown>;
  buckets: Buckets;
  /** Each rank reads its own part of the source. */
  divided: boolean;
  leftOut: LeftOut;
  openFeed(options: EpochOptions, leftOut: LeftOut, position?: StreamPosition): Promise<Feed>;
}

/** The steps of an epoch, from its beginning or from where they were saved. @throws SeracError of reading */
export async function epochGroups({ settings, source, buckets, divided, leftOut, openFeed }: EpochMaking, epoch: number, saved: SavedEpoch | undefined): Promise<GroupMaker> {
  const { seed, shuffle, mode, kind, rank, dropLast, bufferSize } = settings;
  const worldSize = divided ? 1 : settings.worldSize;
  const lhotse = mode === "lhotse";
  const position = saved?.maker?.feed ? { state: saved.maker.feed.stream, held: heldRefs(saved) } : undefined;
  const share = divided ? { index: rank, count: settings.worldSize } : undefined;
  const feed = await openFeed({ epoch, seed, shuffle: shuffle && !lhotse, share }, source instanceof ColumnSource ? new LeftOut() : leftOut, position);
  if (saved?.maker?.feed) feed.restore(saved.maker.feed);
  const filling = new Filling(settings);
  const eager = kind === "simple" || kind === "static";
  const items = new ItemList();
  if (eager) await feed.fill(Number.POSITIVE_INFINITY, (bucket, ref, duration) => items.push(bucket, ref, duration));
  if (lhotse) {
    const list = { refs: items.refs.subarray(0, items.length), durations: items.durations.subarray(0, items.length) };
    if (kind === "static") return new LhotseStatic(list, filling, { ...settings, worldSize, epoch }, saved as never);
    const random = new PythonRandom(seed + epoch);
    const maker =
      kind === "simple"
        ? new LhotseSimple(list, filling, { seed: seed + epoch, shuffle, dropLast }, saved?.maker as never)
        : kind === "dynamic"
          ? new LhotseDynamic(feed, filling, random, { shuffle, bufferSize, dropLast }, saved?.maker as never)
          : new LhotseBucketing(
              feed,
              filling,
              random,
              { ...settings, worldSize, buckets: buckets.count + (settings.bucketBatchSize || buckets.needsTokens ? 1 : 0) }, // lhotse has one more, always empty
              saved?.maker as never,
            );
    return new LhotseRanks(maker, worldSize, dropLast);
  }
  const random = new Random(seed).fork(epoch);

  const maker = eager
    ? new SeracPlanned(feed, items, filling, random, { buckets: buckets.count, shuffle, dropLast, worldSize }, saved?.maker as never)
    : new SeracBucketing(feed, filling, random, { buckets: buckets.count, bufferSize, shuffle, dropLast, worldSize }, saved?.maker as never);
  return new SeracRanks(maker, { worldSize, dropLast, name: source.name }, saved as never);
}
