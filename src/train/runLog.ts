/** What a run leaves to be read: icefall's log file, metrics.jsonl, TensorBoard's event file. */
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { appendWhole, makeFolder } from "../formats/atomic.ts";
import { EventFile } from "../formats/index.ts";

export interface RunLogOptions {
  /** Write an event file to EXP-DIR/tensorboard. */
  tensorboard: boolean;
  /** Where lines go besides the file. */
  say: (line: string) => void;
  now?: () => Date;
}

const two = (value: number): string => String(value).padStart(2, "0");
const day = (date: Date): string => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
const clock = (date: Date): [string, string, string] => [two(date.getHours()), two(date.getMinutes()), two(date.getSeconds())];

/** Python's logging form, "2026-11-30 19:06:00,123 INFO [train] ...", so that scripts that read icefall's logs read these. */
export const logLine = (date: Date, level: "INFO" | "WARNING", line: string): string =>
  `${day(date)} ${clock(date).join(":")},${String(date.getMilliseconds()).padStart(3, "0")} ${level} [train] ${line}\n`;

/** The logs of one run. */
export class RunLog {
  readonly path: string;
  private readonly expDir: string;
  private readonly options: RunLogOptions;
  private fd: number | undefined;
  /** What could not be written the last time. */
  private readonly lost = new Set<string>();
  private readonly events: EventFile | undefined;

  /** @throws what the system says where the folder cannot be written to */
  constructor(expDir: string, options: RunLogOptions) {
    this.expDir = expDir;
    this.options = options;
    const start = this.now();
    makeFolder(join(expDir, "log"));
    this.path = join(expDir, "log", `log-train-${day(start)}-${clock(start).join("-")}`);
    this.fd = openSync(this.path, "a");
    this.events = options.tensorboard ? new EventFile(join(expDir, "tensorboard")) : undefined;
  }

  private now(): Date {
    return this.options.now?.() ?? new Date();
  }

  /** A line for people. */
  say(line: string, level: "INFO" | "WARNING" = "INFO"): void {
    this.options.say(line);
    this.note(line, level);
  }

  /** A line for the file alone. */
  note(line: string, level: "INFO" | "WARNING" = "INFO"): void {
    if (this.fd === undefined) return;
    try {
      appendWhole(this.fd, Buffer.from(logLine(this.now(), level, line), "utf8"));
    } catch {
      // A full disk must not end training: what is lost is a line that was shown.
    }
  }

  /** Numbers for machines: a line of metrics.jsonl. */
  metrics(values: Record<string, unknown>): void {
    this.attempt("metrics.jsonl", () => {
      const fd = openSync(join(this.expDir, "metrics.jsonl"), "a");
      try {
        appendWhole(fd, Buffer.from(`${JSON.stringify(values)}\n`, "utf8"));
      } finally {
        closeSync(fd);
      }
    });
  }

  /** Scalars for TensorBoard. @param prefix of icefall's tags: "train/current_" */
  scalars(values: Readonly<Record<string, number>>, step: number, prefix = ""): void {
    const { events } = this;
    if (events) this.attempt("the event file", () => events.add(Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value])), step));
  }

  /** A full disk does not end training: what is lost is said, once until it can be written again. */
  private attempt(what: string, write: () => void): void {
    try {
      write();
      this.lost.delete(what);
    } catch (error) {
      if (!this.lost.has(what)) this.options.say(`${what} cannot be written: ${error instanceof Error ? error.message : String(error)}`);
      this.lost.add(what);
    }
  }

  close(): void {
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
    this.events?.close();
  }
}
