/**
 * Progress of something long: how far, how fast, how long still. One line that is repainted on a terminal,
 * a line every few seconds where the output is a pipe or a file.
 */

/** Where progress is written: process.stderr, or a test's own. */
export interface ProgressStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
}

export interface ProgressOptions {
  /** How much there is to do; undefined where nobody knows. */
  total?: number | undefined;
  /** How much was done before it began, which tells nothing of the speed. */
  from?: number;
  /** What is counted: "utterances", "s of audio". */
  unit: string;
  /** Stands before the numbers. */
  label?: string;
  stream?: ProgressStream;
  /** Seconds between lines where the stream is no terminal. */
  interval?: number;
  /** Seconds, from any origin. */
  clock?: () => number;
}

/** @returns seconds as people read them: 42 s, 3 min 20 s, 2 h 05 min */
export function showDuration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

/** @returns a number with about three digits: 0.123, 45.6, 1234 */
export function showNumber(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

/** @returns bytes as people read them: 1.24 GB, 35.1 MB */
export const showBytes = (bytes: number): string => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`);

/** Counts work done and writes it; never more often than ten times a second. */
export class Progress {
  private done: number;
  private note = "";
  private readonly start: number;
  private painted: number;
  private width = 0;
  private readonly options: Required<Omit<ProgressOptions, "total">> & { total: number | undefined };

  constructor({ total, from = 0, unit, label = "", stream = process.stderr, interval = 5, clock = () => performance.now() / 1000 }: ProgressOptions) {
    this.options = { total, from, unit, label, stream, interval, clock };
    this.done = from;
    this.start = clock();
    this.painted = this.start;
  }

  /** @param count how much more is done; @param note what stands behind the numbers, for instance the loss */
  add(count = 1, note = this.note): void {
    this.update(this.done + count, note);
  }

  /** @param done how much is done in all */
  update(done: number, note = this.note): void {
    this.done = done;
    this.note = note;
    const { stream, interval, clock } = this.options;
    const now = clock();
    if (now - this.painted < (stream.isTTY ? 0.1 : interval)) return;
    this.painted = now;
    this.paint(now);
  }

  /** Writes a line of talk above the progress. */
  say(line: string): void {
    this.clear();
    this.options.stream.write(`${line}\n`);
  }

  /** Ends it: the last state stays as a line of its own. */
  finish(note = this.note): void {
    this.note = note;
    this.clear();
    this.options.stream.write(`${this.line(this.options.clock(), true)}\n`);
  }

  /** Takes the repainted line away. */
  clear(): void {
    if (this.width > 0) this.options.stream.write(`\r${" ".repeat(this.width)}\r`);
    this.width = 0;
  }

  private paint(now: number): void {
    const { stream } = this.options;
    if (!stream.isTTY) {
      stream.write(`${this.line(now, false)}\n`);
      return;
    }
    const line = this.line(now, false).slice(0, Math.max(20, (stream.columns ?? 80) - 1));
    stream.write(`\r${line.padEnd(this.width)}`);
    this.width = line.length;
  }

  private line(now: number, finished: boolean): string {
    const { total, from, unit, label } = this.options;
    const seconds = now - this.start;
    const rate = seconds > 0 ? (this.done - from) / seconds : 0;
    const parts = [`${showNumber(this.done)}${total === undefined ? "" : `/${showNumber(total)}`} ${unit}`];
    if (rate > 0) parts.push(`${showNumber(rate)}/s`);
    if (finished) parts.push(`in ${showDuration(seconds)}`);
    else if (total !== undefined && rate > 0) parts.push(`${showDuration((total - this.done) / rate)} left`);
    if (this.note !== "") parts.push(this.note);
    return `${label === "" ? "" : `${label}: `}${parts.join(", ")}`;
  }
}
