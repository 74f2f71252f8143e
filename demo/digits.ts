/** Strings of spoken digits: what the demo's speakers say. Nothing outside of demo/ knows about digits. */
import type { Random } from "../src/util/random.ts";

export const digitWords = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"] as const;

/** @returns between `min` and `max` digits (both inclusive), each drawn on its own */
export function randomDigits(random: Random, { min, max }: { min: number; max: number }): number[] {
  return Array.from({ length: random.integer(min, max + 1) }, () => random.integer(0, 10));
}

/** The transcript: `[3, 1, 4]` is "three one four". */
export function digitText(digits: readonly number[]): string {
  return digits.map((digit) => digitWords[digit] as string).join(" ");
}

/**
 * The text that a synthesizer is given: the words, with a comma after some of them, since people group digits and pause between the groups.
 * @param pauses the probability of a comma after a word that is not the last
 */
export function promptText(digits: readonly number[], pauses: number, random: Random): string {
  return digits.map((digit, i) => (digitWords[digit] as string) + (i + 1 < digits.length && random.uniform() < pauses ? "," : "")).join(" ");
}
