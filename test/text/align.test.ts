import fc from "fast-check";
import { expect, test } from "vitest";
import { addCounts, align, countErrors, errorRate } from "../../src/text/align.ts";

const words = (s: string) => (s === "" ? [] : s.split(" "));
/** Pairs as `ref/hyp`, `*` for nothing. */
const shown = (ref: string, hyp: string) =>
  align(words(ref), words(hyp))
    .map((p) => `${p.ref ?? "*"}/${p.hyp ?? "*"}`)
    .join(" ");

test("ties fall as kaldialign's do", () => {
  expect(shown("a b c", "a s x c")).toBe("a/a b/s */x c/c");
  expect(shown("a b", "b c")).toBe("a/* b/b */c");
  expect(shown("A B C", "D C A")).toBe("A/D B/* C/C */A");
  expect(shown("A B C D", "C E D F")).toBe("A/* B/* C/C */E D/D */F");
  expect(shown("", "a b")).toBe("*/a */b");
  expect(shown("a b", "")).toBe("a/* b/*");
  expect(shown("", "")).toBe("");
});

test("sclite's weights avoid substitutions that cost more than they save", () => {
  expect(countErrors(align(words("a b"), words("b c"), { scliteMode: true }))).toMatchObject({ insertions: 1, deletions: 1, substitutions: 0 });
});

/** The plain recursion, for the distance alone. */
function distance(a: readonly string[], b: readonly string[]): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  a.forEach((x, i) => {
    const next = [i + 1];
    b.forEach((y, j) => next.push(Math.min((row[j] as number) + (x === y ? 0 : 1), (row[j + 1] as number) + 1, (next[j] as number) + 1)));
    row = next;
  });
  return row[b.length] as number;
}

test("an alignment spells both sides and costs the edit distance", () => {
  const text = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 14 });
  fc.assert(
    fc.property(text, text, (ref, hyp) => {
      const pairs = align(ref, hyp);
      expect(pairs.flatMap((p) => p.ref ?? [])).toEqual(ref);
      expect(pairs.flatMap((p) => p.hyp ?? [])).toEqual(hyp);
      const counts = countErrors(pairs);
      expect(counts.insertions + counts.deletions + counts.substitutions).toBe(distance(ref, hyp));
      expect(counts.correct + counts.deletions + counts.substitutions).toBe(ref.length);
      expect(counts.words).toBe(ref.length);
    }),
    { numRuns: 500 },
  );
});

test("rates are of the whole corpus", () => {
  const a = countErrors(align(words("a b c d"), words("a b c d")));
  const b = countErrors(align(words("x"), words("y z")));
  expect(errorRate(addCounts(a, b))).toBeCloseTo(2 / 5);
  expect(errorRate(countErrors(align([], [])))).toBeUndefined();
  expect(errorRate(countErrors(align([], ["a"])))).toBeUndefined();
});
