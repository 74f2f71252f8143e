/** What `serac manifest check` looks for: each kind with how bad it is and what --fix does about it. */

export type Severity = "error" | "warning";

interface Kind {
  severity: Severity;
  /** Completes "12 lines: ...". */
  what: string;
  /** What --fix does; absent where it leaves the line as it is. */
  mend?: string;
}

/** In the order of the report. */
export const issueKinds = {
  noUtterances: { severity: "error", what: "no utterance in the manifest" },
  badLine: { severity: "error", what: "not JSON", mend: "dropped" },
  notAnObject: { severity: "error", what: "JSON, but not an object", mend: "dropped" },
  noAudio: { severity: "error", what: "no audio named", mend: "dropped" },
  missingAudio: { severity: "error", what: "the audio is not there", mend: "dropped" },
  unreadableAudio: { severity: "error", what: "the audio cannot be read", mend: "dropped" },
  emptyAudio: { severity: "error", what: "the audio has no samples", mend: "dropped" },
  noDuration: { severity: "error", what: "no duration", mend: "set to the audio's" },
  badDuration: { severity: "error", what: "a duration that is no number of seconds", mend: "set to the audio's" },
  wrongDuration: { severity: "error", what: "another duration than the audio's", mend: "set to the audio's" },
  badOffset: { severity: "error", what: "an offset that is no number of seconds", mend: "dropped" },
  pastEnd: { severity: "error", what: "offset and duration pass the end of the audio", mend: "cut to the end; dropped where nothing is left" },
  duplicateUtterance: { severity: "error", what: "the same audio, offset and duration again", mend: "the later one dropped" },
  duplicateMember: { severity: "error", what: "another file gets the same member name in a tar" },
  subSuffix: { severity: "error", what: "a name that ends in -sub and a number, which readers of tarred datasets take off" },
  badText: { severity: "error", what: "a text that is not a string", mend: "numbers written as text, null as an empty one, others dropped" },
  controlCharacter: { severity: "error", what: "control characters in the text", mend: "replaced by a space" },
  canaryMissing: { severity: "error", what: "a key that Canary needs is missing" },
  canaryValue: { severity: "error", what: "a value that no prompt of Canary has" },
  canarySpelling: { severity: "error", what: "a spelling that NeMo refuses or takes for something else", mend: "written as NeMo reads it" },
  wrongSamplingRate: { severity: "error", what: "another sampling rate than the audio's", mend: "set to the audio's" },
  wrongChannels: { severity: "error", what: "another number of channels than the audio's", mend: "set to the audio's" },
  tooManyTokens: { severity: "error", what: "more tokens than frames, so that no alignment exists", mend: "dropped" },
  emptyText: { severity: "warning", what: "no text" },
  subInPath: { severity: "warning", what: '"-sub" in the path, which NeMo asks to avoid' },
  unusualCharacter: { severity: "warning", what: "characters that are unusual for the language" },
  mixedSamplingRates: { severity: "warning", what: "another sampling rate than most" },
  severalChannels: { severity: "warning", what: "several channels" },
  canaryTask: { severity: "warning", what: '"task", which Canary Flash and v2 ignore' },
} as const satisfies Record<string, Kind>;

export type IssueKind = keyof typeof issueKinds;

/** One kind in a report. */
export interface KindReport {
  kind: IssueKind;
  severity: Severity;
  what: string;
  count: number;
  /** How many of them --fix mended or dropped. */
  mended: number;
  /** The first ones. */
  examples: { at: string; message: string }[];
}

/** Counts by kind, with the first examples. */
export class Issues {
  private readonly found = new Map<IssueKind, KindReport>();
  private readonly maxExamples: number;

  constructor(maxExamples: number) {
    this.maxExamples = maxExamples;
  }

  add(kind: IssueKind, at: string, message: string, { mended = false, count = 1 }: { mended?: boolean; count?: number } = {}): void {
    let report = this.found.get(kind);
    if (report === undefined) {
      const { severity, what } = issueKinds[kind];
      report = { kind, severity, what, count: 0, mended: 0, examples: [] };
      this.found.set(kind, report);
    }
    report.count += count;
    if (mended) report.mended += count;
    if (report.examples.length < this.maxExamples) report.examples.push({ at, message });
  }

  /** In the order of `issueKinds`. */
  list(): KindReport[] {
    return (Object.keys(issueKinds) as IssueKind[]).flatMap((kind) => this.found.get(kind) ?? []);
  }
}
