/**
 * What the fuzz tests share: how many cases, from which seed, and what a reader must never do.
 * `npm test` runs 1,000 cases a format, `npm run fuzz` 100,000: SERAC_FUZZ_CASES and SERAC_FUZZ_SEED say otherwise.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { SeracError } from "../../src/util/errors.ts";

/** Cases a format. */
export const fuzzCases = Number(process.env["SERAC_FUZZ_CASES"] ?? 1000);
/** The same seed gives the same cases. */
export const fuzzSeed = Number(process.env["SERAC_FUZZ_SEED"] ?? 1);

/** What a reader may hold beside its input: buffers of a fixed size, and what the collector has not taken yet. */
const allowance = 64 << 20;

/**
 * A test that gives a reader `fuzzCases` inputs. The reader may return or throw a SeracError; it must not throw anything else, nor take
 * more memory outside of the heap than `factor` times the input's size. A hang ends in the test's time limit.
 * @param weight how many of the usual cases one of these costs: 10 for a reader that opens files
 */
export function fuzz<T extends Uint8Array>(
  name: string,
  inputs: fc.Arbitrary<T>,
  read: (input: T) => Promise<unknown> | unknown,
  { factor = 16, weight = 1 }: { factor?: number; weight?: number } = {},
): void {
  test(name, async () => {
    const start = process.memoryUsage().arrayBuffers;
    await fc.assert(
      fc.asyncProperty(inputs, async (input) => {
        try {
          await read(input);
        } catch (error) {
          if (!(error instanceof SeracError)) throw error;
          expect(error.message).not.toContain("internal:");
        }
        const held = process.memoryUsage().arrayBuffers - start;
        expect(held, "bytes held outside of the heap").toBeLessThan(allowance + factor * input.byteLength);
      }),
      { numRuns: Math.max(1, Math.round(fuzzCases / weight)), seed: fuzzSeed },
    );
  }, 3_600_000);
}

/** Bytes of `whole` with a few of them changed, cut off, doubled or moved: what damage looks like. */
export function damaged(whole: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  const change = fc.record({ kind: fc.constantFrom("set", "cut", "insert", "delete", "repeat"), at: fc.nat(1 << 20), byte: fc.nat(255), length: fc.nat(600) });
  return fc.tuple(whole, fc.array(change, { maxLength: 6 })).map(([bytes, changes]) => {
    let result = Buffer.from(bytes);
    for (const { kind, at, byte, length } of changes) {
      const place = result.length === 0 ? 0 : at % result.length;
      if (kind === "set" && result.length > 0) result[place] = byte;
      else if (kind === "cut") result = result.subarray(0, place) as Buffer<ArrayBuffer>;
      else if (kind === "insert") result = Buffer.concat([result.subarray(0, place), Buffer.alloc(length, byte), result.subarray(place)]);
      else if (kind === "delete") result = Buffer.concat([result.subarray(0, place), result.subarray(place + length)]);
      else if (kind === "repeat") result = Buffer.concat([result, result.subarray(place, place + length)]);
    }
    return new Uint8Array(result);
  });
}
