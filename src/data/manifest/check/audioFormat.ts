/** Checks rate and channels against the audio, and counts those that there are. */
import type { Issues } from "./kinds.ts";
import type { CheckedLine } from "./line.ts";

interface Seen {
  count: number;
  /** The first line. */
  at: string;
}

function countIn(counts: Map<number, Seen>, key: number, at: string): void {
  const seen = counts.get(key);
  if (seen !== undefined) seen.count++;
  else counts.set(key, { count: 1, at });
}

const totals = (counts: ReadonlyMap<number, Seen>): Record<string, number> => Object.fromEntries([...counts].map(([key, { count }]) => [key, count]));

export class AudioFormats {
  private readonly rates = new Map<number, Seen>();
  private readonly channels = new Map<number, Seen>();

  check(line: CheckedLine, { rate, channels }: { rate: number; channels: number }): void {
    const { value, at } = line;
    countIn(this.rates, rate, at);
    countIn(this.channels, channels, at);
    for (const key of ["sampling_rate", "sample_rate"] as const) {
      const said = value[key];
      if (said === undefined || said === null || said === rate) continue;
      const message = `"${key}" is ${JSON.stringify(said)}, the audio has ${rate} Hz`;
      line.found("wrongSamplingRate", message, (mender) => mender.set("wrongSamplingRate", message, key, rate));
    }
    for (const key of ["channels", "num_channels"] as const) {
      const said = value[key];
      if (typeof said !== "number" || said === channels) continue;
      const message = `"${key}" is ${said}, the audio has ${channels}`;
      line.found("wrongChannels", message, (mender) => mender.set("wrongChannels", message, key, channels));
    }
    if (channels > 1) line.found("severalChannels", `${channels} channels`);
  }

  /** Utterances by sampling rate, and by number of channels. */
  get counts(): { samplingRates: Record<string, number>; channels: Record<string, number> } {
    return { samplingRates: totals(this.rates), channels: totals(this.channels) };
  }

  /** What only the whole tells. */
  finish(issues: Issues): void {
    const [most] = [...this.rates].sort((a, b) => b[1].count - a[1].count);
    for (const [rate, { count, at }] of this.rates)
      if (most !== undefined && rate !== most[0]) issues.add("mixedSamplingRates", at, `${rate} Hz, where most have ${most[0]} Hz`, { count });
  }
}
