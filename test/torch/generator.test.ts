import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Generator, rand, randint, randn, randperm, scope, zeros } from "../../src/torch/index.ts";

const draw = (generator: Generator, n = 5): number[] => scope(() => [...randn([n], { generator }).toArray(), ...rand([n], { generator }).toArray()]);

describe("generators", () => {
  test("of one seed give the same numbers, of two seeds others", () => {
    expect(draw(new Generator(1))).toEqual(draw(new Generator(1)));
    expect(draw(new Generator(1))).not.toEqual(draw(new Generator(2)));
    expect(draw(new Generator(2n ** 63n + 5n))).not.toEqual(draw(new Generator(0)));
  });

  test("a saved state goes on bit for bit, wherever it was saved", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 0, max: 40 }), (seed, before) => {
        const generator = new Generator(seed);
        draw(generator, before);
        const state = generator.state();
        const once = draw(generator, 17);
        expect(draw(generator.restore(state), 17)).toEqual(once);
        expect(draw(new Generator(0).restore(Uint8Array.from(state)), 17)).toEqual(once);
      }),
      { numRuns: 20 },
    );
  });

  test("bytes that are no state are refused, and leave the generator as it was", () => {
    const generator = new Generator(3);
    const state = generator.state();
    for (const bad of [new Uint8Array(0), new Uint8Array(10), state.subarray(1)]) expect(() => generator.restore(bad)).toThrow();
    expect(generator.state()).toEqual(state);
  });

  test("masks come from bernoulli_ with ours, which dropout does not take", () => {
    const mask = () =>
      scope(() =>
        zeros([100])
          .bernoulli_(0.3, { generator: new Generator(5) })
          .toArray(),
      );
    expect(mask()).toEqual(mask());
    expect(mask().some((x) => x === 1) && mask().some((x) => x === 0)).toBe(true);
  });

  test("integers lie in their range, and an order holds each once", () => {
    scope(() => {
      const generator = new Generator(9);
      const drawn = randint(-3, 4, [500], { generator }).toArray();
      expect([Math.min(...drawn), Math.max(...drawn)]).toEqual([-3, 3]);
      expect(
        randperm(50, { generator })
          .toArray()
          .sort((a, b) => a - b),
      ).toEqual(Array.from({ length: 50 }, (_, i) => i));
    });
  });

  test("an unknown device is an error", () => {
    expect(() => new Generator(1, { device: "moon" })).toThrow();
  });
});
