import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type EpochOptions, type ItemSource, type ItemStream, type Json, memorySource } from "../../../src/data/sampling/index.ts";
import { MuxSource } from "../../../src/data/sources/mux.ts";

interface Item {
  id: string;
  duration: number;
}

const source = (name: string, size: number): ItemSource<Item> =>
  memorySource(
    Array.from({ length: size }, (_, i) => ({ id: `${name}${i}`, duration: 1 + i })),
    { name },
  );

/** The same, whose reads come later, a few items at a time. */
class Slow implements ItemSource<Item> {
  readonly name: string;
  readonly divisible = true;
  private readonly inner: ItemSource<Item>;
  constructor(inner: ItemSource<Item>) {
    this.inner = inner;
    this.name = inner.name;
  }
  get length(): number | undefined {
    return this.inner.length;
  }
  fingerprint = (): string => this.inner.fingerprint();
  load = (refs: ArrayLike<number>): Promise<Item[]> => this.inner.load(refs);
  release = (refs: ArrayLike<number>): void => this.inner.release(refs);
  where = (ref: number): string => this.inner.where(ref);
  async open(options: EpochOptions, position?: { state: Json; held: readonly number[] }): Promise<ItemStream> {
    const stream = await this.inner.open(options, position);
    return { read: async (most) => stream.read(Math.min(most, 3)), state: () => stream.state(), close: () => stream.close() };
  }
}

const epoch = { epoch: 0, seed: 0, shuffle: false };

async function take(stream: ItemStream, count: number, most = 7): Promise<number[]> {
  const refs: number[] = [];
  while (refs.length < count) {
    const block = await stream.read(Math.min(most, count - refs.length));
    if (!block) break;
    refs.push(...block.refs.subarray(0, block.count));
  }
  return refs;
}

const idsOf = async (mux: ItemSource<Item>, refs: readonly number[]): Promise<string[]> => (await mux.load(refs)).map(({ id }) => id);

interface Golden {
  sizes: number[];
  weights: number[] | null;
  seed: number;
  open?: number;
  items: string[];
}
const golden = Object.entries(JSON.parse(readFileSync(new URL("../../golden/mux.json", import.meta.url), "utf8")) as Record<string, Golden>);

describe("mixtures", () => {
  test.each(golden)("draw what lhotse's mux draws with the same seed: %s", async (kind, { sizes, weights, seed, open, items }) => {
    const mux = new MuxSource(
      sizes.map((size, i) => source("abcd"[i] as string, size)),
      { weights: weights ?? undefined, seed, infinite: kind === "infinite" || kind === "streams", maxOpenStreams: open },
    );
    const refs = await take(await mux.open(epoch), items.length);
    expect(await idsOf(mux, refs)).toEqual(items);
  });

  test("every item comes exactly once, whatever weights, epochs, orders and nesting; over readers each comes to one of them", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 30 }), fc.double({ min: 0.01, max: 10, noNaN: true })), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 0, max: 3 }),
        fc.boolean(),
        fc.boolean(),
        fc.integer({ min: 1, max: 4 }),
        async (parts, number, shuffle, slow, readers) => {
          const sources = parts.map(([size], i) => (slow && i % 2 === 0 ? new Slow(source(`s${i}-`, size)) : source(`s${i}-`, size)));
          const weights = parts.map(([, weight]) => weight);
          const inner = new MuxSource(sources, { weights });
          const mux = new MuxSource([inner, source("x", 4)], { weights: [2, 1], seed: 5 });
          const total = parts.reduce((sum, [size]) => sum + size, 4);
          expect(mux.length).toBe(total);
          const ids: string[] = [];
          for (let index = 0; index < readers; index++) {
            const stream = await mux.open({ epoch: number, seed: 3, shuffle, share: { index, count: readers } });
            ids.push(...(await idsOf(mux, await take(stream, total + 1))));
            expect(await stream.read(1)).toBeUndefined();
          }
          expect(ids.length).toBe(total);
          expect(new Set(ids).size).toBe(total);
        },
      ),
      { numRuns: 40 },
    );
  });

  test("a stream that is restored at any point gives exactly the rest, finite and infinite, with and without a limit of open streams", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 25 }), { minLength: 2, maxLength: 4 }),
        fc.constantFrom("finite", "infinite", "streams"),
        fc.boolean(),
        fc.boolean(),
        fc.nat(120),
        fc.integer({ min: 1, max: 40 }),
        async (sizes, kind, shuffle, slow, at, most) => {
          const make = (): MuxSource<Item> =>
            new MuxSource(
              sizes.map((size, i) => (slow ? new Slow(source(`s${i}-`, size)) : source(`s${i}-`, size))),
              { weights: sizes.map((_, i) => i + 1), infinite: kind !== "finite", maxOpenStreams: kind === "streams" ? 2 : undefined },
            );
          const options = { epoch: 1, seed: 9, shuffle };
          const whole = await take(await make().open(options), 200, most);
          const first = await make().open(options);
          expect(await take(first, at, most)).toEqual(whole.slice(0, at));
          const state = JSON.parse(JSON.stringify(first.state())) as Json;
          const second = await make().open(options, { state, held: [] });
          expect(await take(second, 200 - at, 11)).toEqual(whole.slice(at));
        },
      ),
      { numRuns: 50 },
    );
  });

  test("weights are respected at every level", async () => {
    const inner = new MuxSource([source("a", 10), source("b", 10)], { weights: [1, 3], infinite: true });
    const mux = new MuxSource<Item>([inner, source("c", 5)], { weights: [0.8, 0.2], infinite: true });
    const ids = await idsOf(mux, await take(await mux.open({ epoch: 0, seed: 1, shuffle: true }), 4000, 1000));
    const share = (name: string): number => ids.filter((id) => id.startsWith(name)).length / ids.length;
    expect(share("a")).toBeCloseTo(0.2, 1);
    expect(share("b")).toBeCloseTo(0.6, 1);
    expect(share("c")).toBeCloseTo(0.2, 1);
  });

  test("the same seed and epoch give the same draws, others others; an infinite source comes in another order each time", async () => {
    const mux = new MuxSource([source("a", 50), source("b", 50)], { infinite: true });
    const draw = async (options: EpochOptions): Promise<number[]> => take(await mux.open(options), 300);
    expect(await draw({ epoch: 2, seed: 4, shuffle: true })).toEqual(await draw({ epoch: 2, seed: 4, shuffle: true }));
    expect(await draw({ epoch: 3, seed: 4, shuffle: true })).not.toEqual(await draw({ epoch: 2, seed: 4, shuffle: true }));
    const ofA = (await draw({ epoch: 0, seed: 4, shuffle: true })).filter((ref) => ref % 2 === 0);
    expect(ofA.slice(0, 50).sort()).toEqual(ofA.slice(50, 100).sort());
    expect(ofA.slice(0, 50)).not.toEqual(ofA.slice(50, 100));
    const readers = await Promise.all([0, 1].map((index) => draw({ epoch: 0, seed: 4, shuffle: true, share: { index, count: 2 } })));
    // Each reader has a half of every pass.
    const firstPass = readers.map((refs) => refs.filter((ref) => ref % 2 === 0).slice(0, 25));
    expect(new Set(firstPass.flat()).size).toBe(50);
  });

  test("zero, negative and missing weights, empty sources and limits that cannot hold are errors beforehand", () => {
    const two = [source("a", 2), source("b", 2)];
    expect(() => new MuxSource([])).toThrow(/CONFIG_BAD_VALUE/);
    expect(() => new MuxSource(two, { weights: [1] })).toThrow(/MIX_BAD_WEIGHT/);
    for (const weight of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) expect(() => new MuxSource(two, { weights: [1, weight] })).toThrow(/weight of b is .*MIX_BAD_WEIGHT/);
    expect(() => new MuxSource([source("a", 2), source("empty", 0)])).toThrow(/^empty: .*SOURCE_EMPTY/);
    expect(() => new MuxSource(two, { maxOpenStreams: 1 })).toThrow(/force_finite/);
    expect(() => new MuxSource(two, { infinite: true, maxOpenStreams: 0 })).toThrow(/max_open_streams is 0/);
  });

  test("an infinite mixture over a source that turns out to be empty is an error, not a hang", async () => {
    const unknown: ItemSource<Item> = new Slow(source("nothing", 0));
    Object.defineProperty(unknown, "length", { value: undefined });
    const mux = new MuxSource([unknown], { infinite: true });
    await expect(take(await mux.open(epoch), 1)).rejects.toThrow(/^nothing: .*SOURCE_EMPTY/);
  });

  test("states of other mixtures are refused", async () => {
    const mux = new MuxSource([source("a", 2), source("b", 2)]);
    const states: Json[] = [null, 3, { random: [] }, { random: Array<number>(625).fill(0), passes: [1], slots: [] }];
    for (const state of states) await expect(Promise.resolve().then(() => mux.open(epoch, { state, held: [] }))).rejects.toThrow(/SAMPLER_BAD_STATE/);
  });

  test("places of items are those of their sources", async () => {
    const mux = new MuxSource([source("a", 2), source("b", 2)]);
    const [ref] = await take(await mux.open(epoch), 1);
    expect(mux.where(ref as number)).toMatch(/^item \d$/);
  });
});
