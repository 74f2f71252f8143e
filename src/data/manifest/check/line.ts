/** A line while it is looked at: what is found goes to the report, and with --fix into the line. */
import type { SeracError } from "../../../util/errors.ts";
import type { ManifestLine, ManifestObject } from "../lines.ts";
import type { IssueKind, Issues } from "./kinds.ts";
import type { LineMender } from "./mend.ts";

export class CheckedLine {
  readonly value: ManifestObject;
  /** `manifest:line`. */
  readonly at: string;
  readonly line: ManifestLine;
  private readonly issues: Issues;
  private readonly mender: LineMender | undefined;

  /** @param mender undefined where nothing is mended */
  constructor(line: ManifestLine, issues: Issues, mender: LineMender | undefined) {
    this.line = line;
    this.value = line.value;
    this.at = `${line.path}:${line.line}`;
    this.issues = issues;
    this.mender = mender;
  }

  /** Reports a fault. @param mend what is done about it; absent where the line stays as it is */
  found(kind: IssueKind, message: string, mend?: (mender: LineMender) => void): void {
    this.issues.add(kind, this.at, message, { mended: this.mender !== undefined && mend !== undefined });
    if (this.mender !== undefined) mend?.(this.mender);
  }

  /** Reports a fault that costs the line. */
  lost(kind: IssueKind, message: string): void {
    this.found(kind, message, (mender) => mender.drop(kind, message));
  }
}

/** An error's message without its place, code and remedy, which a report says in its own way. */
export const withoutCode = (error: SeracError): string => error.message.replace(`${error.at}: `, "").replace(/ \[[A-Z_]+\].*$/, "");

/** For messages: "1.25 s". */
export const showSeconds = (value: number): string => `${Math.round(value * 1000) / 1000} s`;
