import { describe, expect, test } from "vitest";
import type { Cut } from "../../src/data/cut.ts";
import { encoderFrames, featureFrames, LeftOut, neededFrames, utteranceFilter } from "../../src/data/filter.ts";
import { prefetch } from "../../src/data/prefetch.ts";

const cut = (text: string, duration: number): Cut => ({
  id: text,
  audioPath: text,
  offset: undefined,
  duration,
  text,
  speaker: undefined,
  lang: undefined,
  speed: 1,
  tracks: undefined,
  gap: 0,
  origin: `m:${text}`,
});
/** The cuts that pass; the others are counted. */
function filtered(cuts: readonly Cut[], options: Parameters<typeof utteranceFilter>[0], leftOut: LeftOut): Cut[] {
  const why = utteranceFilter(options);
  return cuts.filter((one) => {
    const reason = why(one);
    if (reason !== undefined) leftOut.add(reason, one.origin);
    return reason === undefined;
  });
}
const encode = (text: string): number[] => Array.from(text, (c) => (c === "?" ? 2 : c.charCodeAt(0)));

describe("utteranceFilter", () => {
  test("counts every reason with its first example", () => {
    const leftOut = new LeftOut();
    const kept = filtered(
      [cut("a", 0.5), cut("b", 30), cut("x?", 2), cut("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 1), cut("good", 2), cut("c", 0.2)],
      { minUtterance: 1, maxUtterance: 20, sampleRate: 16000, ctc: true, encode, unkId: 2 },
      leftOut,
    );
    expect(kept.map((c) => c.text)).toEqual(["good"]);
    expect(leftOut.total).toBe(5);
    expect(leftOut.lines()).toEqual([
      "2 shorter than 1 s (first: m:a)",
      "1 longer than 20 s (first: m:b)",
      "1 with characters that the tokenizer does not know (first: m:x?)",
      "1 with more tokens than frames (first: m:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)",
    ]);
  });

  test("an empty transcript is left out", () => {
    const leftOut = new LeftOut();
    const options = { minUtterance: 1, maxUtterance: 20, sampleRate: 16000, ctc: true, encode, unkId: 2 };
    expect(filtered([cut("", 2), cut("good", 2)], options, leftOut).map((c) => c.text)).toEqual(["good"]);
    expect(leftOut.lines()).toEqual(["1 with an empty transcript (first: m:)"]);
  });

  test("the first example is the lowest line, in whatever order they come; addOnce counts an utterance once", () => {
    const leftOut = new LeftOut();
    for (const line of [100, 20, 3, 20]) leftOut.add("long", `a.jsonl:${line}`);
    for (let epoch = 0; epoch < 3; epoch++) for (const line of [12, 5]) leftOut.addOnce("missing", `a.jsonl:${line}`);
    expect(leftOut.lines()).toEqual(["4 long (first: a.jsonl:3)", "2 missing (first: a.jsonl:5)"]);
  });

  test("counts of several are added, with the lowest example of all", () => {
    const [a, b] = [new LeftOut(), new LeftOut()];
    for (const line of [9, 8]) a.add("long", `a.jsonl:${line}`);
    for (const line of [3, 4, 5]) b.add("long", `a.jsonl:${line}`);
    b.add("short", "b.jsonl:1");
    a.addAll(b);
    expect(a.lines()).toEqual(["5 long (first: a.jsonl:3)", "1 short (first: b.jsonl:1)"]);
  });

  test("the bound on tokens is exact: repeats cost a blank in CTC only", () => {
    expect(neededFrames([5, 5, 6], true)).toBe(4);
    expect(neededFrames([5, 5, 6], false)).toBe(3);
    expect(neededFrames([], true)).toBe(1);
    expect(neededFrames([5, 6, 7], false, 2)).toBe(5);
    expect(neededFrames([5, 5, 5, 5], true, 2)).toBe(7); // the blanks are more than what shall be left
  });

  test("frames are those of the fbank and the encoder", () => {
    expect(featureFrames(1, 16000)).toBe(100);
    expect(featureFrames(0.0124, 16000)).toBe(1);
    expect([0, 8, 9, 39, 100].map(encoderFrames)).toEqual([0, 0, 1, 8, 23]);
  });
});

describe("prefetch", () => {
  test("keeps the order and never runs more than `depth`", async () => {
    let running = 0;
    let most = 0;
    const results: number[] = [];
    const work = async (x: number): Promise<number> => {
      most = Math.max(most, ++running);
      for (let i = 0; i < (x * 7) % 5; i++) await Promise.resolve();
      running--;
      return x * 2;
    };
    for await (const r of prefetch([1, 2, 3, 4, 5, 6, 7], 3, work)) results.push(r);
    expect(results).toEqual([2, 4, 6, 8, 10, 12, 14]);
    expect(most).toBeLessThanOrEqual(3);
  });

  test("an error comes where its item would have", async () => {
    const got: number[] = [];
    const run = async (): Promise<void> => {
      for await (const r of prefetch([1, 2, 3], 3, async (x) => (x === 2 ? Promise.reject(new Error("two")) : x))) got.push(r);
    };
    await expect(run()).rejects.toThrow("two");
    expect(got).toEqual([1]);
  });
});
