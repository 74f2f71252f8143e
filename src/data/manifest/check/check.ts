/**
 * Finds what is wrong with manifests before it costs a training run: lines, audio, times, names, texts, prompts.
 * Memory: 8-byte hashes of what must be unique, and nothing else that grows with the number of lines.
 */
import type { CanaryVersion } from "../canary.ts";
import { type ManifestSpec, manifestPaths } from "../inputs.ts";
import { audioKeys, audioOf, firstKey } from "../keys.ts";
import { type LineError, type ManifestLine, readManifestBatches } from "../lines.ts";
import type { PathSource } from "../paths.ts";
import { withReplay } from "../replay.ts";
import { AudioFormats } from "./audioFormat.ts";
import { FixOutput, type FixSummary, kindOf } from "./fixOutput.ts";
import { HeaderCache } from "./headerCache.ts";
import type { HeaderResult } from "./headers.ts";
import { Issues, issueKinds, type KindReport } from "./kinds.ts";
import { CheckedLine, withoutCode } from "./line.ts";
import type { LineMender } from "./mend.ts";
import { type AudioPlace, mergeHeaders, placeOf } from "./places.ts";
import { checkCanary } from "./prompts.ts";
import { HeaderJournal } from "./resume.ts";
import { type CheckTokenizer, checkTokens, Texts } from "./texts.ts";
import { checkTimes } from "./times.ts";
import { Uniqueness } from "./unique.ts";

export interface CheckOptions {
  /** Reads headers, or with "decode" all samples, or no audio at all. */
  audio?: "headers" | "decode" | "none";
  /** Seconds by which durations may differ. */
  tolerance?: number;
  /** Files that are read at once. */
  workers?: number;
  /** "auto" looks at lines that have Canary's keys; v1 where `task` is among them, and no key of v2 alone. */
  canary?: CanaryVersion | "auto" | "none";
  tokenizer?: CheckTokenizer;
  /** Counts a blank between equal tokens, as CTC needs. */
  ctc?: boolean;
  /** Hertz of the features, for counting frames. */
  sampleRate?: number;
  /** Examples of each kind. */
  examples?: number;
  /** Where the mended manifest goes; the list of changes goes beside it. */
  fix?: string;
  /** Where headers are kept while it runs; "auto" is beside the first manifest. */
  resumeFile?: string | "auto" | "none";
  onProgress?: (lines: number) => void;
  /** Ends it early; what was read is kept for the next time. */
  signal?: AbortSignal;
}

export interface CheckReport {
  manifests: string[];
  utterances: number;
  /** Lines with `_skipme`, which are not looked at. */
  skipped: number;
  /** By the manifest. */
  seconds: number;
  errors: number;
  warnings: number;
  kinds: KindReport[];
  /** From where paths were taken. */
  audioFrom: Partial<Record<PathSource, number>>;
  /** Utterances by the audio's own sampling rate and number of channels. */
  samplingRates: Record<string, number>;
  channels: Record<string, number>;
  /** Headers that an interrupted check had read. */
  resumed: number;
  fix?: FixSummary;
}

/** All checks of a line one after the other, and the sums over lines. */
class Checker {
  readonly issues: Issues;
  private utterances = 0;
  private skipped = 0;
  private seconds = 0;
  /** Manifests in which an utterance was seen. */
  private readonly filled = new Set<string>();
  private readonly audioFrom: Partial<Record<PathSource, number>> = {};
  private readonly formats = new AudioFormats();
  private readonly texts = new Texts();
  private readonly unique: Uniqueness;
  private readonly options: CheckOptions;
  private readonly manifests: readonly string[];

  constructor(options: CheckOptions, manifests: readonly string[]) {
    this.options = options;
    this.manifests = manifests;
    this.issues = new Issues(options.examples ?? 3);
    this.unique = new Uniqueness(manifests);
  }

  /** A line that is no object. */
  bad(error: LineError): void {
    this.issues.add(kindOf(error), error.at ?? "", withoutCode(error), { mended: this.options.fix !== undefined });
  }

  /** @param header undefined where no audio is looked at @param mender undefined where nothing is mended */
  line(read: ManifestLine, { skip, name, from }: AudioPlace, header: HeaderResult | undefined, mender: LineMender | undefined): void {
    if (skip) {
      this.skipped++;
      return;
    }
    const { tolerance = 0.05, tokenizer, ctc = true, sampleRate = 16000, canary = "auto" } = this.options;
    const line = new CheckedLine(read, this.issues, mender);
    const { value } = line;
    this.utterances++;
    this.filled.add(read.path);
    for (const source of from) this.audioFrom[source] = (this.audioFrom[source] ?? 0) + 1;
    if (typeof value["duration"] === "number") this.seconds += value["duration"];
    if (audioOf(value) === undefined) {
      const key = firstKey(value, audioKeys);
      const cut = typeof value["recording"] === "object" ? ": a cut of lhotse, of which serac manifest convert makes a line" : "";
      line.lost("noAudio", key === undefined ? `no "audio_filepath"${cut}` : `"${key}" is no path`);
    }
    if (name !== undefined) this.unique.checkName(line, name);
    const duration = checkTimes(line, header, tolerance);
    if (header !== undefined && !("failure" in header)) this.formats.check(line, header);
    if (name !== undefined) this.unique.checkUtterance(line, name);
    const text = this.texts.check(line);
    if (tokenizer !== undefined && text !== undefined && text !== "" && duration !== undefined) checkTokens(line, text, duration, tokenizer, { ctc, sampleRate });
    checkCanary(line, canary);
  }

  /** Ends it with what only the whole tells. */
  report(resumed: number, fix: FixSummary | undefined): CheckReport {
    for (const manifest of this.manifests) if (!this.filled.has(manifest)) this.issues.add("noUtterances", manifest, "no line of it can be used");
    this.formats.finish(this.issues);
    this.texts.finish(this.issues);
    const kinds = this.issues.list();
    const sum = (severity: "error" | "warning"): number => kinds.filter(({ kind }) => issueKinds[kind].severity === severity).reduce((total, { count }) => total + count, 0);
    const { manifests, utterances, skipped, seconds, audioFrom, formats } = this;
    return {
      manifests: [...manifests],
      utterances,
      skipped,
      seconds,
      errors: sum("error"),
      warnings: sum("warning"),
      kinds,
      audioFrom,
      ...formats.counts,
      resumed,
      ...(fix === undefined ? {} : { fix }),
    };
  }
}

/** The file where headers are kept; undefined where none is. */
function sideFile({ audio, resumeFile = "auto" }: CheckOptions, first: string): string | undefined {
  if (audio === "none" || resumeFile === "none") return undefined;
  if (resumeFile !== "auto") return resumeFile;
  return first === "-" ? undefined : `${first}.check`;
}

/** Lines that are looked at together: few, so that an interrupt is heard and progress is seen. */
const groupSize = 256;

/**
 * Checks manifests, and mends them where `fix` is given.
 * @throws ManifestError MANIFEST_PRETTY_PRINTED; FormatError of reading and writing; an AbortError where `signal` ended it
 */
export async function checkManifest(spec: ManifestSpec, options: CheckOptions = {}): Promise<CheckReport> {
  const { audio = "headers", workers = 16, fix, signal, onProgress } = options;
  return withReplay(spec, async (source) => {
    const given = manifestPaths(spec);
    const names = given.map((path) => (path === "-" ? "stdin" : path));
    const journal = new HeaderJournal(sideFile(options, given[0] as string), source, audio);
    const headers = new HeaderCache(journal, workers, audio === "decode");
    const checker = new Checker(options, names);
    const output = fix === undefined ? undefined : new FixOutput(fix);
    const headersOf = (places: readonly AudioPlace[]): Promise<ReadonlyMap<string, HeaderResult>> =>
      headers.read(
        places.flatMap(({ files }) => files),
        signal,
      );
    const onError = (error: LineError): void => {
      checker.bad(error);
      output?.drop(error);
    };
    try {
      for await (const batch of readManifestBatches(source, { onError })) {
        await output?.listBad();
        // Standard input was read from a copy; it keeps its name.
        const lines = batch.map((line) => (names.includes(line.path) ? line : { ...line, path: names[source.indexOf(line.path)] ?? line.path }));
        for (let start = 0; start < lines.length; start += groupSize) {
          signal?.throwIfAborted();
          const group = lines.slice(start, start + groupSize);
          const places = group.map(placeOf);
          const found = audio === "none" ? undefined : await headersOf(places);
          signal?.throwIfAborted();
          for (const [i, line] of group.entries()) {
            const place = places[i] as AudioPlace;
            const mender = output?.mender(line);
            checker.line(line, place, found && mergeHeaders(place.files.map((file) => found.get(file))), mender);
            if (mender) await output?.write(line, mender);
          }
          onProgress?.(group.length);
        }
      }
      await output?.close();
    } catch (error) {
      await journal.close();
      output?.abandon();
      throw error;
    }
    await journal.remove();
    return checker.report(journal.reused, output?.summary);
  });
}
