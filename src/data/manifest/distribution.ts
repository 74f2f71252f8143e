/** How numbers are distributed: percentiles and histograms. */

/**
 * How some quantity is distributed. Percentiles of durations are exact, linear between the two nearest values as numpy's; those of rates are
 * within 0.05 %.
 */
export interface Distribution {
  count: number;
  mean: number;
  min: number;
  max: number;
  percentiles: Record<"1" | "5" | "10" | "25" | "50" | "75" | "90" | "95" | "99", number>;
}

/** Equal steps from `min` to `max`. */
export interface Histogram {
  min: number;
  step: number;
  counts: number[];
}

/**
 * Numbers in one array, to be sorted where they lie. It doubles: what is not used yet is not in memory, and the old array is garbage long before the end.
 */
export class Numbers {
  private values = new Float64Array(1 << 12);
  private count = 0;

  push(value: number): void {
    if (this.count === this.values.length) {
      const { values } = this;
      this.values = new Float64Array(2 * this.count);
      this.values.set(values);
    }
    this.values[this.count++] = value;
  }

  /** All of them, not copied. */
  get all(): Float64Array {
    return this.values.subarray(0, this.count);
  }
}

/** Sorts `values` and describes them. */
export function distribution(values: Float64Array): Distribution | undefined {
  if (values.length === 0) return undefined;
  values.sort();
  const at = (percent: number): number => {
    const place = (percent / 100) * (values.length - 1);
    const low = values[Math.floor(place)] as number;
    return low + ((values[Math.ceil(place)] as number) - low) * (place % 1);
  };
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number; // by index: several times as fast over millions
  return {
    count: values.length,
    mean: sum / values.length,
    min: values[0] as number,
    max: values[values.length - 1] as number,
    percentiles: { 1: at(1), 5: at(5), 10: at(10), 25: at(25), 50: at(50), 75: at(75), 90: at(90), 95: at(95), 99: at(99) },
  };
}

/** Positive numbers, counted in steps of 0.1 %: percentiles in constant memory. */
export class Logarithmic {
  readonly counts = new Float64Array(1 << 15); // from exp(-16) to exp(16)
  count = 0;
  sum = 0;
  min = Number.POSITIVE_INFINITY;
  max = 0;

  add(value: number): void {
    this.count++;
    this.sum += value;
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    const place = value > 0 ? Math.round((Math.log(value) + 16) * 1000) : 0;
    this.counts[place < 0 ? 0 : Math.min(place, 32000)]!++;
  }

  /** Adds what another has counted, or a copy of its fields. */
  merge(other: Pick<Logarithmic, "counts" | "count" | "sum" | "min" | "max">): void {
    this.count += other.count;
    this.sum += other.sum;
    this.min = Math.min(this.min, other.min);
    this.max = Math.max(this.max, other.max);
    for (let place = 0; place < this.counts.length; place++) this.counts[place]! += other.counts[place] as number;
  }

  result(): Distribution | undefined {
    const { count, sum, min, max, counts } = this;
    if (count === 0) return undefined;
    const at = (percent: number): number => {
      let left = (percent / 100) * (count - 1);
      let place = 0;
      while (place < 32000 && left >= (counts[place] as number)) left -= counts[place++] as number;
      return Math.min(max, Math.max(min, place === 0 ? 0 : Math.exp(place / 1000 - 16)));
    };
    return { count, mean: sum / count, min, max, percentiles: { 1: at(1), 5: at(5), 10: at(10), 25: at(25), 50: at(50), 75: at(75), 90: at(90), 95: at(95), 99: at(99) } };
  }
}

/** Of sorted values, in steps of 1, 2 or 5 times a power of ten. */
export function histogramOf(sorted: Float64Array, bars = 20): Histogram {
  const max = sorted[sorted.length - 1] as number;
  const min = sorted[0] as number;
  const raw = Math.max((max - min) / bars, 1e-3);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) as number);
  const first = Math.floor(min / step) * step;
  const counts: number[] = new Array(Math.floor((max - first) / step) + 1).fill(0);
  for (let i = 0; i < sorted.length; i++) counts[Math.floor(((sorted[i] as number) - first) / step)]!++;
  return { min: first, step, counts };
}
