/**
 * Borders of duration buckets of equal total length, as lhotse estimates them, to the last bit.
 * Source: lhotse, dataset/sampling/dynamic_bucketing.py (estimate_duration_buckets); NumPy's pairwise summation.
 */

/** NumPy's sum of float64: pairwise above 128 items, eight running sums below. */
export function pairwiseSum(values: Float64Array, start = 0, count = values.length): number {
  if (count < 8) {
    let sum = -0; // NumPy's own start
    for (let i = 0; i < count; i++) sum += values[start + i] as number;
    return sum;
  }
  if (count <= 128) {
    const r = Array.from(values.subarray(start, start + 8)) as [number, number, number, number, number, number, number, number];
    let i = 8;
    for (; i < count - (count % 8); i += 8) for (let k = 0; k < 8; k++) r[k] = (r[k] as number) + (values[start + i + k] as number);
    let sum = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
    for (; i < count; i++) sum += values[start + i] as number;
    return sum;
  }
  let half = Math.floor(count / 2);
  half -= half % 8;
  return pairwiseSum(values, start, half) + pairwiseSum(values, start + half, count - half);
}

/**
 * @param durations seconds, in any order; they are left as they are
 * @param numBuckets at least 2, at most the number of durations
 * @returns the inner borders in ascending order: numBuckets - 1 of them, fewer where few durations are very long
 */
export function estimateDurationBins(durations: Float64Array, numBuckets: number): number[] {
  const sorted = Float64Array.from(durations).sort();
  const target = pairwiseSum(sorted) / numBuckets;
  const bins: number[] = [];
  let total = 0;
  for (const duration of sorted) {
    if (total > target) {
      bins.push(duration);
      total = 0;
    }
    total += duration;
  }
  return bins;
}
