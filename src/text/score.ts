/**
 * The files that icefall's decoding scripts leave: recogs-*.txt, errs-*.txt and wer-summary-*.txt, to the character.
 * Source: icefall/utils.py (store_transcripts, write_error_stats) and zipformer/decode.py (save_results).
 */
import { pythonFloat } from "../formats/pythonNumber.ts";
import { type AlignedPair, align, countErrors, type ErrorCounts } from "./align.ts";

/** One utterance with its words. */
export interface ScoredUtterance {
  id: string;
  ref: readonly string[];
  hyp: readonly string[];
}

/** Compares as Python does, by code points. */
function comparePython(a: string, b: string): number {
  if (a === b) return 0;
  const [x, y] = [[...a], [...b]];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const d = ((x[i] as string).codePointAt(0) as number) - ((y[i] as string).codePointAt(0) as number);
    if (d !== 0) return d;
  }
  return x.length - y.length;
}

const escapes: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A string as Python's repr writes it: in single quotes, or in double ones when it holds a single quote and no double one. */
export function pythonRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0) as number;
    if (char === quote) out += `\\${char}`;
    else if (escapes[char] !== undefined) out += escapes[char];
    // Python escapes what Unicode calls Other or Separator, but for the space.
    else if (char !== " " && /[\p{C}\p{Z}]/u.test(char))
      out += code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
    else out += char;
  }
  return quote + out + quote;
}

function pythonList(words: readonly string[]): string {
  return `[${words.map(pythonRepr).join(", ")}]`;
}

/** Errors per hundred words, computed in the order in which Python does; undefined where the reference has no word. */
function percentOf({ insertions, deletions, substitutions, words }: ErrorCounts): number | undefined {
  return words === 0 ? undefined : (100 * (insertions + deletions + substitutions)) / words;
}

/** What stands in place of a rate over no word. icefall divides by zero there. */
const noRate = "-";

const byId = (a: { id: string }, b: { id: string }): number => comparePython(a.id, b.id);

/** recogs-*.txt: two lines an utterance, sorted by id. */
export function formatRecogs(utterances: readonly ScoredUtterance[]): string {
  return [...utterances]
    .sort(byId)
    .map(({ id, ref, hyp }) => `${id}:\tref=${pythonList(ref)}\n${id}:\thyp=${pythonList(hyp)}\n`)
    .join("");
}

/** An alignment as text: agreeing words, `(ref->hyp)` where they differ, neighbouring differences in one, `*` for nothing. */
export function formatAlignment(pairs: readonly AlignedPair[]): string {
  const parts: string[] = [];
  let ref: string[] = [];
  let hyp: string[] = [];
  const flush = () => {
    if (ref.length + hyp.length === 0) return;
    const [a, b] = [ref.join(" ") || "*", hyp.join(" ") || "*"];
    parts.push(a === b ? a : `(${a}->${b})`);
    [ref, hyp] = [[], []];
  };
  for (const pair of pairs) {
    if (pair.ref === pair.hyp) {
      flush();
      if (pair.ref !== undefined) parts.push(pair.ref);
    } else {
      if (pair.ref !== undefined) ref.push(pair.ref);
      if (pair.hyp !== undefined) hyp.push(pair.hyp);
    }
  }
  flush();
  return parts.join(" ");
}

/** What errs-*.txt says, and the counts behind it. */
export interface ErrorReport extends ErrorCounts {
  text: string;
  /** Errors per hundred words of the reference, rounded to two decimals as icefall keeps it; undefined where it has no word. */
  percent: number | undefined;
}

/** errs-*.txt; utterances are listed sorted by id. */
export function formatErrors(utterances: readonly ScoredUtterance[]): ErrorReport {
  const sorted = [...utterances].sort(byId);
  const alignments = sorted.map(({ ref, hyp }) => align(ref, hyp));
  const counts = countErrors(alignments.flat());
  const percent = percentOf(counts)?.toFixed(2);

  const substitutions = new Map<string, { count: number; ref: string; hyp: string }>();
  const deletions = new Map<string, number>();
  const insertions = new Map<string, number>();
  const words = new Map<string, { correct: number; refSubstituted: number; hypSubstituted: number; inserted: number; deleted: number }>();
  const wordOf = (word: string) => {
    let entry = words.get(word);
    if (entry === undefined) words.set(word, (entry = { correct: 0, refSubstituted: 0, hypSubstituted: 0, inserted: 0, deleted: 0 }));
    return entry;
  };
  for (const { ref, hyp } of alignments.flat()) {
    if (ref === undefined) {
      const word = hyp as string;
      insertions.set(word, (insertions.get(word) ?? 0) + 1);
      wordOf(word).inserted++;
    } else if (hyp === undefined) {
      deletions.set(ref, (deletions.get(ref) ?? 0) + 1);
      wordOf(ref).deleted++;
    } else if (ref === hyp) wordOf(ref).correct++;
    else {
      const key = JSON.stringify([ref, hyp]);
      const entry = substitutions.get(key) ?? { count: 0, ref, hyp };
      entry.count++;
      substitutions.set(key, entry);
      wordOf(ref).refSubstituted++;
      wordOf(hyp).hypSubstituted++;
    }
  }
  const descending = (table: Map<string, number>) => [...table].sort(([a, n], [b, m]) => m - n || comparePython(b, a)).map(([word, n]) => `${n}   ${word}`);
  const substituted = [...substitutions.values()].sort((a, b) => b.count - a.count || comparePython(b.ref, a.ref) || comparePython(b.hyp, a.hyp));
  const perWord = [...words]
    .map(([word, w]) => ({ word, ...w, errors: w.refSubstituted + w.hypSubstituted + w.inserted + w.deleted }))
    .sort((a, b) => b.errors - a.errors || comparePython(b.word, a.word));

  const lines = [
    `%WER = ${percent ?? noRate}`,
    `Errors: ${counts.insertions} insertions, ${counts.deletions} deletions, ${counts.substitutions} substitutions, over ${counts.words} reference words (${counts.correct} correct)`,
    "Search below for sections starting with PER-UTT DETAILS:, SUBSTITUTIONS:, DELETIONS:, INSERTIONS:, PER-WORD STATS:",
    "",
    "PER-UTT DETAILS: corr or (ref->hyp)  ",
    ...sorted.map(({ id }, i) => `${id}:\t${formatAlignment(alignments[i] as AlignedPair[])}`),
    "",
    "SUBSTITUTIONS: count ref -> hyp",
    ...substituted.map(({ count, ref, hyp }) => `${count}   ${ref} -> ${hyp}`),
    "",
    "DELETIONS: count ref",
    ...descending(deletions),
    "",
    "INSERTIONS: count hyp",
    ...descending(insertions),
    "",
    "PER-WORD STATS: word  corr tot_errs count_in_ref count_in_hyp",
    ...perWord.map((w) => `${w.word}   ${w.correct} ${w.errors} ${w.correct + w.refSubstituted + w.deleted} ${w.correct + w.hypSubstituted + w.inserted}`),
  ];
  return { ...counts, percent: percent === undefined ? undefined : Number(percent), text: `${lines.join("\n")}\n` };
}

/** The line that icefall logs for a test set. */
export function formatErrorLine(name: string, counts: ErrorCounts): string {
  const { insertions, deletions, substitutions, words } = counts;
  const percent = percentOf(counts);
  return `[${name}] %WER ${percent === undefined ? noRate : `${percent.toFixed(2)}%`} [${insertions + deletions + substitutions} / ${words}, ${insertions} ins, ${deletions} del, ${substitutions} sub ]`;
}

/**
 * wer-summary-*.txt: the settings of a decoding method and their rates, the best first.
 * @param percents `percent` of each setting's report
 */
export function formatSummary(percents: Readonly<Record<string, number | undefined>> | ReadonlyMap<string, number | undefined>): string {
  const entries: [string, number | undefined][] = percents instanceof Map ? [...percents] : Object.entries(percents);
  const known = entries.filter((entry): entry is [string, number] => entry[1] !== undefined).sort(([, a], [, b]) => a - b);
  const lines = [...known.map(([settings, x]) => `${settings}\t${pythonFloat(x)}`), ...entries.filter(([, x]) => x === undefined).map(([settings]) => `${settings}\t${noRate}`)];
  return ["settings\tWER", ...lines].map((line) => `${line}\n`).join("");
}
