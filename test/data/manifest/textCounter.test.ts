import fc from "fast-check";
import { expect, test } from "vitest";
import { TextCounter } from "../../../src/data/manifest/textCounter.ts";

/** Counted the plain way. */
function expected(texts: readonly string[]): { characters: number; words: number; counts: Map<string, number> } {
  const counts = new Map<string, number>();
  for (const text of texts) for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  const words = texts.flatMap((text) => text.split(/ +/).filter((word) => word !== ""));
  return { characters: [...counts.values()].reduce((sum, count) => sum + count, 0), words: words.length, counts };
}

const text = fc.string({ unit: fc.constantFrom("a", "b", " ", "ä", "字", "😀"), maxLength: 30 });

test("counts alike here and in a thread", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(text, { maxLength: 60 }), fc.integer({ min: 0, max: 3 }), async (texts, blocksBefore) => {
      const threaded = new TextCounter({ blockUnits: 40, blocksBefore });
      const alone = new TextCounter({ blockUnits: 40, blocksBefore: 1e9 });
      for (const [i, one] of texts.entries()) {
        threaded.add(one, i % 7);
        alone.add(one, i % 7);
      }
      const [a, b] = [(await threaded.result()).result(), (await alone.result()).result()];
      // Means of rates are sums in another order.
      const rounded = (value: unknown) => JSON.parse(JSON.stringify(value, (_, x) => (typeof x === "number" ? Number(x.toPrecision(12)) : x)));
      expect(rounded({ ...a, characters: { ...a.characters, counts: [] } })).toEqual(rounded({ ...b, characters: { ...b.characters, counts: [] } }));
      const { characters, words, counts } = expected(texts);
      expect([a.characters.total, a.words.total]).toEqual([characters, words]);
      expect(new Map(a.characters.counts.map(({ character, count }) => [character, count]))).toEqual(counts);
    }),
    { numRuns: 20 },
  );
});

test("a thread that fails is an error", async () => {
  const counter = new TextCounter({ blockUnits: 1, blocksBefore: 0 });
  counter.add("words", 1);
  await counter.close();
  await expect(counter.result()).rejects.toThrow(/thread that counts texts/);
});
