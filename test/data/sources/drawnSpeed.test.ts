import fc from "fast-check";
import { expect, test } from "vitest";
import { createSampler, DrawnSpeedSource, type ItemSource, MuxSource, memorySource, type SourceCut } from "../../../src/data/index.ts";
import { describe as cutOf } from "../loading/corpus.ts";

const factors = [0.9, 1, 1.1];
const cuts = (count: number, name = "u"): SourceCut[] => Array.from({ length: count }, (_, i) => cutOf(`${name}${i}`, "", 1 + (i % 7)));
const drawn = (source: ItemSource<SourceCut>, seed = 1): DrawnSpeedSource => new DrawnSpeedSource(source, { factors, seed, sampleRate: 16_000 });
/** A mixture without end. */
const endless = (count: number): ItemSource<SourceCut> => new MuxSource([memorySource(cuts(count, "a")), memorySource(cuts(count + 1, "b"))], { infinite: true, seed: 3 });

async function read(source: ItemSource<SourceCut>, { epoch = 0, most = 1000 } = {}): Promise<{ id: string; duration: number; told: number }[]> {
  const stream = await source.open({ epoch, seed: 0, shuffle: true });
  const items: { id: string; duration: number; told: number }[] = [];
  while (items.length < most) {
    const block = await stream.read(Math.min(5, most - items.length));
    if (!block) break;
    const told = [...block.durations.subarray(0, block.count)];
    const loaded = await source.load(block.refs.slice(0, block.count));
    loaded.forEach(({ id, duration }, i) => items.push({ id, duration, told: told[i] as number }));
  }
  return items;
}
const original = (id: string): string => id.replace(/_sp.*/, "");

test("every cut comes once, at one of the speeds, with the duration that was told; another epoch or seed draws others", async () => {
  const source = drawn(memorySource(cuts(300)));
  const items = await read(source);
  expect(items.map(({ id }) => original(id)).sort()).toEqual(
    cuts(300)
      .map(({ id }) => id)
      .sort(),
  );
  for (const { duration, told } of items) expect(duration).toBeCloseTo(told, 9);
  for (const suffix of ["_sp0.9", "_sp1.1"]) expect(items.filter(({ id }) => id.endsWith(suffix)).length).toBeGreaterThan(70);
  const ids = (list: readonly { id: string }[]): string[] => list.map(({ id }) => id).sort();
  expect(ids(await read(source))).toEqual(ids(items));
  expect(ids(await read(source, { epoch: 1 }))).not.toEqual(ids(items));
  expect(ids(await read(drawn(memorySource(cuts(300)), 2)))).not.toEqual(ids(items));
});

test("where a source has no end, a cut that comes again has another speed", async () => {
  const items = await read(drawn(endless(4)), { most: 300 });
  const speeds = new Map<string, Set<string>>();
  for (const { id } of items) speeds.set(original(id), (speeds.get(original(id)) ?? new Set()).add(id));
  for (const [id, seen] of speeds) expect(seen.size, id).toBe(3);
});

test("samplers go on at any step with exactly the batches that remain", () =>
  fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 8 }), fc.boolean(), async (count, step, ahead, infinite) => {
      const sampler = () => createSampler(drawn(infinite ? endless(count) : memorySource(cuts(count))), { kind: "dynamic", maxDuration: 20, bufferSize: 10, shuffle: true });
      const whole: string[] = [];
      const stream = await (await sampler()).epoch(2);
      while (whole.length < step + ahead) {
        const batch = await stream.next();
        if (!batch) break;
        whole.push((await batch.load()).map(({ id }) => id).join(" "));
      }
      const done = Math.min(step, whole.length);
      const resumed = await (await sampler()).resume(JSON.parse(JSON.stringify(stream.stateAt(done))));
      for (const rest of whole.slice(done)) expect((await (await resumed.next())?.load())?.map(({ id }) => id).join(" ")).toBe(rest);
    }),
    { numRuns: 40 },
  ));

test("factors that are none are refused", () => {
  for (const bad of [[], [0], [Number.NaN, 1]])
    expect(() => new DrawnSpeedSource(memorySource(cuts(2)), { factors: bad, seed: 1, sampleRate: 16_000 })).toThrow(/CONFIG_BAD_VALUE/);
});
