/** What the commands of `serac manifest` share: options, and how bad lines and progress are told. */
import { type LineError, manifestPaths } from "../data/index.ts";
import { boolean, choice, path } from "../util/options.ts";
import type { Output } from "./output.ts";

/** The manifests that a command reads. */
export const manifests = { help: "manifests: paths, brace patterns, or - for standard input", many: true } as const;

export const readOptions = {
  skipBadLines: boolean({ default: false, help: "leave out lines that cannot be read and count them, instead of stopping at the first", group: "Reading" }),
};

export const writeOptions = {
  out: path({ default: "-", short: "o", unit: "file", help: "manifest to write; - is standard output", group: "Writing" }),
  paths: pathsOption(),
};

/** `--paths`: how audio is named in another folder. */
export function pathsOption() {
  return choice(["auto", "absolute", "relative", "keep"], {
    default: "auto",
    help: "paths of audio in the output: auto rewrites relative ones where the output lies in another folder",
    group: "Writing",
  });
}

/** Bad lines that were left out. */
export class BadLines {
  count = 0;
  private readonly first: string[] = [];
  /** To pass on as `onError`; empty where the first bad line shall throw. */
  readonly options: { onError?: (error: LineError) => void };

  constructor(skip: boolean) {
    this.options = skip
      ? {
          onError: (error) => {
            this.count++;
            if (this.first.length < 3) this.first.push(error.message);
          },
        }
      : {};
  }

  /** Tells how many there were. */
  report(out: Output): void {
    if (this.count === 0) return;
    out.say([`left out ${this.count} bad line${this.count === 1 ? "" : "s"}:`, ...this.first.map((message) => `  ${message}`)].join("\n"));
  }
}

/** @returns a function that counts lines on stderr, and one that ends it */
export function lineProgress(out: Output, label: string): { onProgress: (lines: number) => void; finish: () => void } {
  const progress = out.progress(undefined, "lines", label);
  return { onProgress: (lines) => progress.add(lines), finish: () => progress.finish() };
}

/** @returns one file, where there is one, for the next command to type */
export function showInput(inputs: readonly string[]): string {
  return manifestPaths(inputs).length === 1 ? (inputs[0] as string) : inputs.join(" ");
}

/** @returns hours as people read them */
export function showHours(seconds: number): string {
  const hours = seconds / 3600;
  return `${hours.toFixed(hours < 1 ? 3 : hours < 100 ? 2 : 1)} h`;
}
