import { expect, test } from "vitest";
import { type Cut, perturbSpeed } from "../../src/data/cut.ts";

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
