/** The mended manifest: each change to a line is kept with its reason, so that the list of them tells all that happened. */
import { dumpPython, type PyObject, type PyValue, parsePython } from "../../../formats/pythonJson.ts";
import type { ManifestLine } from "../lines.ts";
import type { IssueKind } from "./kinds.ts";

/** An entry of the list of changes. */
export interface Change {
  at: string;
  action: "changed" | "dropped";
  kind: IssueKind;
  why: string;
  key?: string;
  from?: PyValue;
  to?: PyValue;
}

/** What becomes of one line. */
export class LineMender {
  readonly changes: Change[] = [];
  dropped = false;
  private object: PyObject | undefined;
  private readonly line: ManifestLine;
  private readonly at: string;

  constructor(line: ManifestLine, at: string) {
    this.line = line;
    this.at = at;
  }

  drop(kind: IssueKind, why: string): void {
    if (this.dropped) return;
    this.dropped = true;
    this.changes.push({ at: this.at, action: "dropped", kind, why });
  }

  set(kind: IssueKind, why: string, key: string, to: PyValue): void {
    this.object ??= parsePython(this.line.text) as PyObject;
    const from = this.object.get(key);
    this.object.set(key, to);
    this.changes.push({ at: this.at, action: "changed", kind, why, key, ...(from === undefined ? {} : { from }), to });
  }

  /** The line as it is to be written, or undefined where nothing of it changed. */
  mended(): string | undefined {
    return this.object === undefined ? undefined : dumpPython(this.object);
  }
}

/** As a line of the list of changes. */
export function dumpChange({ at, action, kind, why, key, from, to }: Change): string {
  return dumpPython({ at, action, kind, why, key, from, to });
}
