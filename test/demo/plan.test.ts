import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { digitText, digitWords, promptText, randomDigits } from "../../demo/digits.ts";
import { makePlan } from "../../demo/plan.ts";
import { chooseVoices } from "../../demo/voices.ts";
import { Random } from "../../src/util/random.ts";

describe("the demo's speech", () => {
  test("strings have the length asked for, and prompts the words of the transcript", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 5 }), fc.nat(4), fc.double({ min: 0, max: 1, noNaN: true }), (seed, min, more, pauses) => {
        const random = new Random(seed);
        const digits = randomDigits(random, { min, max: min + more });
        expect(digits.length).toBeGreaterThanOrEqual(min);
        expect(digits.length).toBeLessThanOrEqual(min + more);
        expect(digitText(digits).split(" ")).toEqual(digits.map((digit) => digitWords[digit]));
        expect(promptText(digits, pauses, random).replaceAll(",", "")).toBe(digitText(digits));
      }),
    );
  });

  test.each([{ nonFree: true }, { nonFree: false }])("nonFree $nonFree: no voice that tests trains, and with Pico one engine that tests never trains", ({ nonFree }) => {
    const { training, heldOut } = chooseVoices({ nonFree });
    const { utterances, takes } = makePlan({ seed: 7, hours: 0.05, training, heldOut });
    const of = (sets: readonly string[]) => utterances.filter(({ set }) => sets.includes(set));
    const trained = of(["train", "valid"]);
    const tested = of(["test-synthetic"]);
    const speakers = new Set(tested.map(({ speaker }) => speaker));
    const engines = new Set(tested.map(({ engine }) => engine));
    const trainedEngines = new Set(trained.map(({ engine }) => engine));
    if (nonFree) expect(tested.length).toBeGreaterThanOrEqual(500);
    expect(speakers.size).toBeGreaterThanOrEqual(nonFree ? 4 : 3);
    expect(engines.size).toBe(2);
    expect([...engines].filter((engine) => !trainedEngines.has(engine))).toHaveLength(nonFree ? 1 : 0);
    expect(trained.filter(({ speaker }) => speakers.has(speaker))).toEqual([]);
    expect(of(["train", "valid"]).filter(({ parts }) => parts.some((part) => part.startsWith("/")))).toEqual([]); // no recordings of people
    for (const { text } of of(["test-synthetic", "test-human"])) expect(text.split(" ").length).toBeGreaterThanOrEqual(3);

    const testStrings = new Set(
      of(["test-synthetic", "test-human", "valid"])
        .map(({ text }) => text)
        .filter((text) => text.split(" ").length >= 3),
    );
    expect(of(["train"]).filter(({ text }) => testStrings.has(text))).toEqual([]);

    const takeIds = new Set(takes.map(({ id }) => id));
    expect(takeIds.size).toBe(takes.length);
    expect(new Set(utterances.map(({ id }) => id)).size).toBe(utterances.length);
    expect(utterances.flatMap(({ parts }) => parts).filter((part) => !part.startsWith("/") && !takeIds.has(part))).toEqual([]);
  });

  test("a seed gives one plan, another seed another", () => {
    const voices = chooseVoices();
    const plan = (seed: number) => JSON.stringify(makePlan({ seed, hours: 0.02, ...voices }));
    expect(plan(1)).toBe(plan(1));
    expect(plan(1)).not.toBe(plan(2));
  });
});
