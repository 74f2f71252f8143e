/** Which utterances training leaves out, and why: counted by reason, never silent. */

/** Orders places by their numbers: "a.jsonl:9" before "a.jsonl:10". */
const { compare: comparePlaces } = new Intl.Collator("en", { numeric: true });

/** Counts of what was left out, by reason, with the first example of each. */
export class LeftOut {
  readonly counts = new Map<string, { count: number; example: string }>();
  private readonly met = new Set<string>();

  /** @param example a place, as "train.jsonl:7"; the lowest of a reason is shown, in whatever order they come */
  add(reason: string, example: string, count = 1): void {
    const entry = this.counts.get(reason);
    if (!entry) this.counts.set(reason, { count, example });
    else {
      entry.count += count;
      if (example !== entry.example && comparePlaces(example, entry.example) < 0) entry.example = example;
    }
  }

  /** As `add`, but what the example names is counted once, although it is met in every epoch. */
  addOnce(reason: string, example: string): void {
    if (this.met.has(example)) return;
    this.met.add(example);
    this.add(reason, example);
  }

  /** Forgets everything. */
  clear(): void {
    this.counts.clear();
    this.met.clear();
  }

  /** Adds the counts of another. */
  addAll({ counts }: LeftOut): void {
    for (const [reason, { count, example }] of counts) this.add(reason, example, count);
  }

  get total(): number {
    let sum = 0;
    for (const { count } of this.counts.values()) sum += count;
    return sum;
  }

  /** One line per reason: "12 shorter than 1 s (first: train.jsonl:7)". */
  lines(): string[] {
    return Array.from(this.counts, ([reason, { count, example }]) => `${count} ${reason} (first: ${example})`);
  }
}

/** The fewest feature frames that give an encoder frame. */
export const minFeatureFrames = 9;

/**
 * Frames that the encoder gives for a number of feature frames: ((T - 7) // 2 + 1) // 2.
 * Source: icefall zipformer/subsampling.py and zipformer.py (the output is downsampled by 2).
 */
export const encoderFrames = (featureFrames: number): number => (featureFrames < minFeatureFrames ? 0 : Math.floor((Math.floor((featureFrames - 7) / 2) + 1) / 2));

/** Feature frames of some seconds of audio: the rate's samples over 10 ms, rounded (snip_edges is off). */
export const featureFrames = (duration: number, sampleRate: number): number => {
  const hop = Math.round(sampleRate * 0.01);
  return Math.floor((Math.round(duration * sampleRate) + Math.floor(hop / 2)) / hop);
};

/**
 * Frames that a label sequence needs at least: a symbol a frame, and for CTC a blank between two equal ones. Exact for CTC, whose loss is infinite below.
 * @param spare frames that shall be left besides the symbols, however few blanks there must be
 */
export function neededFrames(tokens: ArrayLike<number>, ctc: boolean, spare = 0): number {
  let needed = tokens.length;
  if (ctc) for (let i = 1; i < tokens.length; i++) if (tokens[i] === tokens[i - 1]) needed++;
  return Math.max(1, needed, tokens.length + spare);
}

/** Bounds for training. */
export interface FilterOptions {
  /** Seconds; shorter utterances are left out. */
  minUtterance: number;
  /** Seconds; longer utterances are left out. */
  maxUtterance: number;
  sampleRate: number;
  /** True when a CTC loss is trained. */
  ctc: boolean;
  /** Frames that shall be left besides the symbols; 0 by default. */
  spareFrames?: number;
  /** Ids of a text. */
  encode: (text: string) => ArrayLike<number>;
  /** The id of what the tokenizer does not know. */
  unkId: number;
}

/** What tells why an utterance cannot be trained on; undefined of those that can. */
export function utteranceFilter({
  minUtterance,
  maxUtterance,
  sampleRate,
  ctc,
  spareFrames,
  encode,
  unkId,
}: FilterOptions): (utterance: { duration: number; text: string }) => string | undefined {
  return ({ duration, text }) => {
    if (duration < minUtterance) return `shorter than ${minUtterance} s`;
    if (duration > maxUtterance) return `longer than ${maxUtterance} s`;
    const tokens = encode(text);
    if (tokens.length === 0) return "with an empty transcript";
    if (Array.prototype.includes.call(tokens, unkId)) return "with characters that the tokenizer does not know";
    if (encoderFrames(featureFrames(duration, sampleRate)) < neededFrames(tokens, ctc, spareFrames)) return "with more tokens than frames";
    return undefined;
  };
}
