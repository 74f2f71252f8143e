/** What --fix writes: the mended manifest, and beside it a line for each thing that was changed or dropped and why. */
import { dumpPython } from "../../../formats/pythonJson.ts";
import type { LineError, ManifestLine } from "../lines.ts";
import { Rebaser } from "../rebase.ts";
import { ManifestWriter } from "../writer.ts";
import type { IssueKind } from "./kinds.ts";
import { withoutCode } from "./line.ts";
import { dumpChange, LineMender } from "./mend.ts";

/** Where the list of changes goes. */
export const changesPath = (out: string): string => `${out.replace(/\.gz$/, "").replace(/\.jsonl?$/, "")}.changes.jsonl`;

/** The kind of a line that is no object. */
export const kindOf = (error: LineError): IssueKind => (error.code === "MANIFEST_NOT_AN_OBJECT" ? "notAnObject" : "badLine");

/** What became of a manifest. */
export interface FixSummary {
  out: string;
  changes: string;
  kept: number;
  changed: number;
  dropped: number;
}

export class FixOutput {
  private readonly path: string;
  private readonly manifest: ManifestWriter;
  private readonly list: ManifestWriter;
  private readonly rebaser: Rebaser;
  private readonly sums = { kept: 0, changed: 0, dropped: 0 };
  /** Lines that could not be read, and are not in the list yet. */
  private readonly bad: LineError[] = [];

  /** @throws FormatError FILE_UNWRITABLE */
  constructor(path: string) {
    this.path = path;
    this.manifest = new ManifestWriter(path);
    this.list = new ManifestWriter(changesPath(path));
    this.rebaser = new Rebaser(path, "auto");
  }

  get summary(): FixSummary {
    return { out: this.path, changes: changesPath(this.path), ...this.sums };
  }

  /** A line that is no object: it is dropped, and listed with the next line or at the end. */
  drop(error: LineError): void {
    this.sums.dropped++;
    this.bad.push(error);
  }

  /** Starts looking at a line. */
  mender(line: ManifestLine): LineMender {
    return new LineMender(line, `${line.path}:${line.line}`);
  }

  /** Writes a line as `mender` leaves it. @throws FormatError FILE_UNWRITABLE */
  async write(line: ManifestLine, mender: LineMender): Promise<void> {
    for (const change of mender.changes) await this.list.writeText(dumpChange(change));
    if (mender.dropped) {
      this.sums.dropped++;
      return;
    }
    const text = mender.mended();
    if (text !== undefined) this.sums.changed++;
    this.sums.kept++;
    const full = this.manifest.writeText(this.rebaser.text(text === undefined ? line : { ...line, text }));
    if (full) await full;
  }

  /** Lists the lines that could not be read. @throws FormatError FILE_UNWRITABLE */
  async listBad(): Promise<void> {
    for (const error of this.bad.splice(0)) await this.list.writeText(dumpPython({ at: error.at, action: "dropped", kind: kindOf(error), why: withoutCode(error) }));
  }

  /** Puts both files in their places. @throws FormatError FILE_UNWRITABLE */
  async close(): Promise<void> {
    await this.listBad();
    await this.manifest.close();
    await this.list.close();
  }

  /** Leaves what was there before. */
  abandon(): void {
    this.manifest.abandon();
    this.list.abandon();
  }
}
