/** Two ways of doing the same, turn by turn in one process: what else happens on a machine then happens to both. */
import { setComposed } from "../../src/torch/index.ts";

/** Seconds of each run, in order. */
export interface Turns {
  own: number[];
  composed: number[];
}

/**
 * Runs `body` with serac's operators and composed of libtorch's, in turns; each way once beforehand, uncounted.
 * @param body gets the round, so that both ways can draw the same; returns the seconds to be counted, or nothing for all that passed
 */
export function takeTurns(rounds: number, body: (round: number) => number | undefined): Turns {
  const times: Turns = { own: [], composed: [] };
  for (let round = -1; round < rounds; round++)
    for (const way of ["composed", "own"] as const) {
      const before = setComposed(way === "composed");
      try {
        const start = performance.now();
        const counted = body(round);
        const seconds = counted ?? (performance.now() - start) / 1000;
        if (round >= 0) times[way].push(seconds);
      } finally {
        setComposed(before);
      }
    }
  return times;
}

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** "0.123 s (0.120 to 0.130)" */
export function spread(values: readonly number[], unit = "s"): string {
  const digits = mean(values) < 1 ? 4 : 3;
  return `${mean(values).toFixed(digits)} ${unit} (${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)})`;
}

/** How many times faster the own operators are, over all rounds: they did the same work. */
export const ratio = ({ own, composed }: Turns): number => mean(composed) / mean(own);
