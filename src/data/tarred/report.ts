/** What opening and reading a tarred dataset found: counted by reason, with the first examples. Nothing is left out without a count. */

/** A count and the first examples of it. */
export interface Finding {
  count: number;
  examples: string[];
}

const maxExamples = 5;

/** Reasons, in the words of the report's lines. */
export const reasons = {
  unusableLines: "manifest lines that cannot be used",
  shorter: "entries shorter than minDuration",
  longer: "entries longer than maxDuration",
  refused: "entries that the filter left out",
  overLimit: "entries beyond maxUtts",
  entriesWithoutMember: "entries whose audio is in no tar",
  membersWithoutEntry: "members without an entry",
  duplicateMembers: "members whose name an earlier one has",
  otherMembers: "members that are neither audio nor text",
  misplaced: "entries whose audio is in another shard than shard_id says",
  samplesWithoutAudio: "WebDataset samples without audio",
  damaged: "damaged members",
  repeated: "utterances given again in place of damaged ones",
} as const;

export type Reason = keyof typeof reasons;

/** Counts by reason. */
export class TarredReport {
  readonly findings = new Map<Reason, Finding>();
  /** What is odd, but left nothing out. */
  readonly notes: string[] = [];

  add(reason: Reason, example: string): void {
    const finding = this.findings.get(reason);
    if (!finding) this.findings.set(reason, { count: 1, examples: [example] });
    else {
      finding.count++;
      if (finding.examples.length < maxExamples) finding.examples.push(example);
    }
  }

  count(reason: Reason): number {
    return this.findings.get(reason)?.count ?? 0;
  }

  /** A line a reason: "2 damaged members (first: audio_0.tar:a.wav)". */
  lines(): string[] {
    return [...Array.from(this.findings, ([reason, { count, examples }]) => `${count} ${reasons[reason]} (first: ${examples[0]})`), ...this.notes];
  }
}
