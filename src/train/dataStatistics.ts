/** What is said of data before training: how long its utterances are, and how many tokens they have. */
import type { ItemSource } from "../data/index.ts";

/** Figures of utterances, each ascending. */
export interface DataStatistics {
  /** Seconds of all utterances. */
  durations: Float64Array;
  /** Output tokens of an utterance, and of a second; of some utterances only where there are very many. Empty where tokens are not counted. */
  tokens: Float64Array;
  tokenRates: Float64Array;
}

/** Of so many utterances tokens are looked at, at most: more would cost time and memory, and change no digit that is shown. */
const mostTokens = 1_000_000;

/** Reads the figures of sources, which are in memory. */
export async function dataStatistics(sources: readonly (ItemSource<unknown> & { readonly length: number })[], most = mostTokens): Promise<DataStatistics> {
  const count = sources.reduce((sum, { length }) => sum + length, 0);
  const step = Math.max(1, Math.ceil(count / most));
  const durations = new Float64Array(count);
  const tokens = new Float64Array(Math.ceil(count / step));
  const tokenRates = new Float64Array(tokens.length);
  let done = 0;
  let counted = 0;
  for (const source of sources) {
    const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
    for (let block = await stream.read(1024); block; block = await stream.read(1024))
      for (let i = 0; i < block.count; i++) {
        const duration = block.durations[i] as number;
        if (block.tokens && done % step === 0) {
          const number = block.tokens[i] as number;
          tokens[counted] = number;
          tokenRates[counted++] = number / duration;
        }
        durations[done++] = duration;
      }
    await stream.close();
  }
  return { durations: durations.sort(), tokens: tokens.subarray(0, counted).sort(), tokenRates: tokenRates.subarray(0, counted).sort() };
}

/** "0.14 to 2.3 s (median 0.42, 95 % below 1.1)", of ascending values */
function spread(values: Float64Array, unit: string): string {
  const at = (q: number): string => String(Number((values[Math.min(values.length - 1, Math.floor(q * values.length))] as number).toPrecision(3)));
  return `${at(0)} to ${at(1)} ${unit} (median ${at(0.5)}, 95 % below ${at(0.95)})`;
}

/** "2,700 utterances, 0.32 h, 0.14 to 2.3 s (median 0.42, 95 % below 1.1)" */
export function describeData({ durations, sources, infinite }: Pick<DataStatistics, "durations"> & { sources: number; infinite: boolean }): string {
  const hours = durations.reduce((sum, duration) => sum + duration, 0) / 3600;
  const of = sources === 1 ? "" : ` of ${sources} sources`;
  return `${durations.length} utterances${of}, ${hours.toFixed(2)} h${infinite ? ", without end" : ""}, ${spread(durations, "s")}`;
}

/** "2 to 24 tokens an utterance (median 9, 95 % below 17), 3.1 to 8.2 a second (median 5.9, 95 % below 7)"; undefined where they are not counted */
export function describeTokens({ tokens, tokenRates }: Pick<DataStatistics, "tokens" | "tokenRates">): string | undefined {
  return tokens.length === 0 ? undefined : `${spread(tokens, "tokens an utterance")}, ${spread(tokenRates, "a second")}`;
}
