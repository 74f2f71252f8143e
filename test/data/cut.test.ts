import { expect, test } from "vitest";
import { type Cut, concatenate, perturbSpeed } from "../../src/data/cut.ts";

const cut = (id: string, duration: number): Cut => ({
  id,
  audioPath: id,
  offset: undefined,
  duration,
  text: id,
  speaker: undefined,
  lang: undefined,
  speed: 1,
  tracks: undefined,
  gap: 0,
  origin: id,
});

test("speed changes the duration", () => {
  expect(perturbSpeed(cut("a", 3), 1.1)).toMatchObject({ duration: 3 / 1.1, speed: 1.1 });
  expect(perturbSpeed(cut("a", 3), 1)).toMatchObject({ duration: 3, speed: 1, id: "a" });
});

test("concatenation adds durations and gaps and joins texts", () => {
  const joined = concatenate([cut("a", 1), cut("b", 2), { ...cut("c", 3), text: "" }], 0.5);
  expect(joined).toMatchObject({ duration: 7, text: "a b", gap: 0.5 });
  expect(joined.tracks).toHaveLength(3);
  expect(concatenate([cut("a", 1)], 1)).toMatchObject({ id: "a", tracks: undefined });
});
