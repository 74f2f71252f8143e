/** Supervisions at other times, with the alignments that they hold. */
import type { Supervision } from "./cut.ts";

/** Rounds away the noise of sums, as lhotse does. */
export const digits = (seconds: number): number => Math.round(seconds * 1e8) / 1e8;

/** Items of an alignment with other times: [symbol, start, duration, score]. */
export function retimed(one: Supervision, time: (seconds: number) => number, length: (seconds: number) => number): Supervision {
  const { alignment } = one;
  const items = (list: readonly unknown[]): unknown[] =>
    list.map((item) => (Array.isArray(item) && typeof item[1] === "number" && typeof item[2] === "number" ? [item[0], time(item[1]), length(item[2]), ...item.slice(3)] : item));
  return {
    ...one,
    start: time(one.start),
    duration: length(one.duration),
    alignment: alignment && Object.fromEntries(Object.entries(alignment).map(([kind, list]) => [kind, items(list)])),
  };
}

/** The same some seconds later. */
export const shifted = (one: Supervision, by: number): Supervision =>
  retimed(
    one,
    (seconds) => digits(seconds + by),
    (seconds) => seconds,
  );
