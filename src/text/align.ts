/**
 * Alignment of reference and hypothesis by edit distance, and word error rates.
 * Source: kaldialign, whose order of choice among equal costs decides what counts as which error: a match or substitution only when it is strictly cheapest,
 * else a deletion when it is cheaper than an insertion, else an insertion; traced back from the end.
 */

/** One step: `ref` undefined is an insertion, `hyp` undefined a deletion. */
export interface AlignedPair<T = string> {
  ref: T | undefined;
  hyp: T | undefined;
}

/** Counts of one or many utterances. */
export interface ErrorCounts {
  insertions: number;
  deletions: number;
  substitutions: number;
  correct: number;
  /** Of the reference. */
  words: number;
}

/** Costs by which paths are compared; errors are counted alike under both. */
export interface AlignOptions {
  /** sclite's weights, 3 for insertion and deletion and 4 for substitution, in place of 1 each. */
  scliteMode?: boolean;
}

/** Aligns two sequences; items compare by ===. Memory is one byte per pair of items. */
export function align<T>(ref: readonly T[], hyp: readonly T[], { scliteMode = false }: AlignOptions = {}): AlignedPair<T>[] {
  const gap = scliteMode ? 3 : 1;
  const swap = scliteMode ? 4 : 1;
  const [rows, columns] = [ref.length, hyp.length];
  const [diagonal, up, left] = [0, 1, 2]; // match or substitution, deletion, insertion
  const choice = new Uint8Array((rows + 1) * (columns + 1)).fill(left, 0, columns + 1);
  let above = Float64Array.from({ length: columns + 1 }, (_, n) => n * gap);
  let current = new Float64Array(columns + 1);
  for (let m = 1; m <= rows; m++) {
    current[0] = m * gap;
    choice[m * (columns + 1)] = up;
    for (let n = 1; n <= columns; n++) {
      const same = (above[n - 1] as number) + (ref[m - 1] === hyp[n - 1] ? 0 : swap);
      const deletion = (above[n] as number) + gap;
      const insertion = (current[n - 1] as number) + gap;
      current[n] = Math.min(same, deletion, insertion);
      choice[m * (columns + 1) + n] = same < deletion && same < insertion ? diagonal : deletion < insertion ? up : left;
    }
    [above, current] = [current, above];
  }
  const pairs: AlignedPair<T>[] = [];
  for (let m = rows, n = columns; m > 0 || n > 0; ) {
    const step = choice[m * (columns + 1) + n];
    if (step !== left) m--;
    if (step !== up) n--;
    pairs.push({ ref: step === left ? undefined : ref[m], hyp: step === up ? undefined : hyp[n] });
  }
  return pairs.reverse();
}

/** Counts the errors of alignments. */
export function countErrors<T>(pairs: Iterable<AlignedPair<T>>): ErrorCounts {
  const counts: ErrorCounts = { insertions: 0, deletions: 0, substitutions: 0, correct: 0, words: 0 };
  for (const { ref, hyp } of pairs) {
    if (ref === undefined) counts.insertions++;
    else {
      counts.words++;
      if (hyp === undefined) counts.deletions++;
      else if (ref === hyp) counts.correct++;
      else counts.substitutions++;
    }
  }
  return counts;
}

/** The sum, as corpus-level rates need it. */
export function addCounts(a: ErrorCounts, b: ErrorCounts): ErrorCounts {
  return {
    insertions: a.insertions + b.insertions,
    deletions: a.deletions + b.deletions,
    substitutions: a.substitutions + b.substitutions,
    correct: a.correct + b.correct,
    words: a.words + b.words,
  };
}

/** Errors per word of the reference; undefined where that has no word. */
export function errorRate({ insertions, deletions, substitutions, words }: ErrorCounts): number | undefined {
  return words === 0 ? undefined : (insertions + deletions + substitutions) / words;
}

/** The words of a text: what white space parts. */
export const splitWords = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");
