/** What a command talks through: data on stdout, talk on stderr. */
import { Progress, type ProgressStream } from "../util/progress.ts";

/** Where a command writes: the process's own streams, or a test's. */
export interface Streams {
  stdout: { write(text: string): unknown };
  stderr: ProgressStream;
}

const stopSignals = ["SIGINT", "SIGTERM"] as const;

/** Milliseconds. `timeout`, some versions of npm and others send a signal to a process and to its group: that is one. As in native/torch/signals.cc. */
const sameStop = 200;

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
    let first = 0;
    const leave = (): void => {
      for (const name of stopSignals) process.removeListener(name, stop);
    };
    const stop = (name: NodeJS.Signals): void => {
      if (!controller.signal.aborted) {
        first = performance.now();
        this.say("serac: stopping; press Ctrl-C again to stop without saving");
        controller.abort();
        // Without a listener the system ends the process, whatever that does. One that has come already is still heard before.
        setTimeout(() => setImmediate(leave), sameStop).unref();
      } else if (performance.now() - first > sameStop) {
        // Not by process.exit, which waits for threads: one may be writing to a disk that does not answer.
        leave();
        process.kill(process.pid, name);
      }
    };
    for (const name of stopSignals) process.on(name, stop);
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
