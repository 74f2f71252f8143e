/** What a command talks through: data on stdout, talk on stderr. */
import { Progress, type ProgressStream } from "../util/progress.ts";

/** Where a command writes: the process's own streams, or a test's. */
export interface Streams {
  stdout: { write(text: string): unknown };
  stderr: ProgressStream;
}

export class Output {
  /** True where `--json` was given: print data as JSON. */
  readonly json: boolean;
  private readonly streams: Streams;
  private controller: AbortController | undefined;
  private current: Progress | undefined;

  constructor({ streams, json = false }: { streams: Streams; json?: boolean }) {
    this.streams = streams;
    this.json = json;
  }

  /** A line of data, on stdout. */
  print(line: string): void {
    this.streams.stdout.write(`${line}\n`);
  }

  /** A line of talk, on stderr. */
  say(line: string): void {
    if (this.current) this.current.say(line);
    else this.streams.stderr.write(`${line}\n`);
  }

  /** The next commands to type, on stderr. */
  next(...commands: string[]): void {
    this.say(["Next:", ...commands.map((command) => `  ${command}`)].join("\n"));
  }

  /** True where talk goes to a terminal, whose last line can be painted again. */
  get isTerminal(): boolean {
    return this.streams.stderr.isTTY === true;
  }

  /**
   * @param from how much was done before
   * @returns progress with rate and time left, on stderr; lines that are said meanwhile stand above it
   */
  progress(total: number | undefined, unit: string, label = "", from = 0): Progress {
    this.current?.clear();
    this.current = new Progress({ total, from, unit, label, stream: this.streams.stderr });
    return this.current;
  }

  /**
   * Aborts at the first Ctrl-C or SIGTERM, so that a command can save and end; the second ends the process at once.
   * A command that never asks for it is ended by the first.
   */
  get signal(): AbortSignal {
    if (this.controller) return this.controller.signal;
    const controller = new AbortController();
    this.controller = controller;
    for (const name of ["SIGINT", "SIGTERM"] as const) {
      process.on(name, () => {
        if (controller.signal.aborted) {
          // Not by process.exit, which waits for threads: one may be writing to a disk that does not answer.
          process.removeAllListeners(name);
          process.kill(process.pid, name);
        }
        this.say("serac: stopping; press Ctrl-C again to stop without saving");
        controller.abort();
      });
    }
    return controller.signal;
  }

  /** True after Ctrl-C, where the command asked for `signal`. */
  get interrupted(): boolean {
    return this.controller?.signal.aborted ?? false;
  }

  /** Leaves nothing half painted. */
  end(): void {
    this.current?.clear();
    this.current = undefined;
  }
}
