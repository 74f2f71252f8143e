/**
 * Finds what is wrong with manifests before it costs a training run: lines, audio, times, names, texts, prompts.
 * Memory: 8-byte hashes of what must be unique, and nothing else that grows with the number of lines.
 */
import { dumpPython, pyFloat } from "../../../formats/pythonJson.ts";
import type { SeracError } from "../../../util/errors.ts";
import { HashTable, hashText, NumberList } from "../../../util/hash.ts";
import { encoderFrames, featureFrames, neededFrames } from "../../filter.ts";
import { flattenPath } from "../../tarred/convert/names.ts";
import { type CanaryVersion, examineCanary, isCanary, writeCanary } from "../canary.ts";
import { isSkipped } from "../entry.ts";
import { type ManifestSpec, manifestPaths } from "../inputs.ts";
import { audioKeys, audioOf, firstKey, isSpans, textOf } from "../keys.ts";
import { type LineError, type ManifestLine, readManifestBatches } from "../lines.ts";
import { type PathSource, resolveAudioPath } from "../paths.ts";
import { Rebaser } from "../rebase.ts";
import { withReplay } from "../replay.ts";
import { ManifestWriter } from "../writer.ts";
import { CharacterCounts, showCharacter } from "./characters.ts";
import { type HeaderResult, inParallel, readHeader } from "./headers.ts";
import { type IssueKind, Issues, issueKinds, type KindReport } from "./kinds.ts";
import { dumpChange, LineMender } from "./mend.ts";
import { HeaderJournal } from "./resume.ts";

/** What tells tokens from a text: a SentencePiece model, for instance. */
export interface CheckTokenizer {
  encode(text: string): ArrayLike<number>;
}

export interface CheckOptions {
  /** Reads headers, or with "decode" all samples, or no audio at all. */
  audio?: "headers" | "decode" | "none";
  /** Seconds by which durations may differ. */
  tolerance?: number;
  /** Files that are read at once. */
  workers?: number;
  /** "auto" looks at lines that have Canary's keys; v1 where `task` is among them. */
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
  fix?: { out: string; changes: string; kept: number; changed: number; dropped: number };
}

/** `serac manifest check` beside the mended manifest: what was done to it. */
export const changesPath = (out: string): string => `${out.replace(/\.gz$/, "").replace(/\.jsonl?$/, "")}.changes.jsonl`;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controls = /[\u0000-\u001f\u007f-\u009f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controlRuns = /\s*[\u0000-\u001f\u007f-\u009f]+\s*/g;
const seconds = (value: number): string => `${Math.round(value * 1000) / 1000} s`;
const withoutCode = (error: SeracError): string => error.message.replace(`${error.at}: `, "").replace(/ \[[A-Z_]+\].*$/, "");

class Checker {
  readonly issues: Issues;
  utterances = 0;
  skipped = 0;
  seconds = 0;
  readonly audioFrom: Partial<Record<PathSource, number>> = {};
  readonly rates = new Map<number, { count: number; at: string }>();
  readonly channels = new Map<number, { count: number; at: string }>();
  private readonly characters = new CharacterCounts();
  private readonly utterancesSeen = new HashTable();
  private readonly utteranceLines = new NumberList();
  private readonly files = new HashTable();
  private readonly names = new HashTable();
  private readonly options: CheckOptions;
  private readonly manifests: readonly string[];
  private readonly tolerance: number;

  constructor(options: CheckOptions, manifests: readonly string[]) {
    this.options = options;
    this.manifests = manifests;
    this.tolerance = options.tolerance ?? 0.05;
    this.issues = new Issues(options.examples ?? 3);
  }

  /** A line that is no object. */
  bad(error: LineError): void {
    const kind = error.code === "MANIFEST_NOT_AN_OBJECT" ? "notAnObject" : "badLine";
    this.issues.add(kind, error.at ?? "", withoutCode(error), { mended: this.options.fix !== undefined });
  }

  private report(mender: LineMender | undefined, kind: IssueKind, at: string, message: string, mend?: (mender: LineMender) => void): void {
    this.issues.add(kind, at, message, { mended: mender !== undefined && mend !== undefined });
    if (mender !== undefined) mend?.(mender);
  }

  /** Everything about one line; `header` is undefined where no audio is looked at. */
  line(line: ManifestLine, audio: string | undefined, header: HeaderResult | undefined, mender: LineMender | undefined): void {
    const at = `${line.path}:${line.line}`;
    const { value } = line;
    this.utterances++;
    if (typeof value["duration"] === "number") this.seconds += value["duration"];
    if (audioOf(value) === undefined) {
      const key = firstKey(value, audioKeys);
      const message = key === undefined ? 'no "audio_filepath"' : `"${key}" is no path`;
      this.report(mender, "noAudio", at, message, (m) => m.drop("noAudio", message));
    }
    if (audio !== undefined) this.name(audio, at);
    const duration = this.times(line, at, header, mender);
    if (header !== undefined && !("failure" in header)) this.format(line, at, header, mender);
    this.duplicates(line, at, audio, mender);
    const text = this.text(line, at, mender);
    if (text !== undefined && text !== "" && duration !== undefined) this.tokens(text, duration, at, mender);
    this.canary(line, at, mender);
  }

  /** @returns the duration that counts from here on */
  private times({ value }: ManifestLine, at: string, header: HeaderResult | undefined, mender: LineMender | undefined): number | undefined {
    const { offset } = value;
    const duration = value["duration"] ?? value["context_duration"];
    const goodOffset = offset === undefined || offset === null || (typeof offset === "number" && Number.isFinite(offset) && offset >= 0);
    if (!goodOffset) {
      const message = `"offset" is ${JSON.stringify(offset)}`;
      this.report(mender, "badOffset", at, message, (m) => m.drop("badOffset", message));
    }
    const start = typeof offset === "number" && goodOffset ? offset : 0;
    const good = typeof duration === "number" && Number.isFinite(duration) && duration > 0;
    if (header !== undefined && "failure" in header) {
      this.report(mender, header.failure, at, header.message, (m) => m.drop(header.failure, header.message));
    }
    const real = header === undefined || "failure" in header ? undefined : header.frames / header.rate;
    if (real === 0) {
      this.report(mender, "emptyAudio", at, "the audio has no samples", (m) => m.drop("emptyAudio", "the audio has no samples"));
      return undefined;
    }
    const left = real === undefined || !goodOffset ? undefined : real - start;
    const setDuration = (kind: IssueKind, why: string): ((m: LineMender) => void) | undefined =>
      left === undefined
        ? undefined
        : (m) => (left > this.tolerance ? m.set(kind, why, "duration", pyFloat(start === 0 ? left : Math.round(left * 1e6) / 1e6)) : m.drop(kind, why));
    if (!good) {
      const kind = duration === undefined || duration === null ? "noDuration" : "badDuration";
      const message = kind === "noDuration" ? 'no "duration"' : `"duration" is ${JSON.stringify(duration)}`;
      this.report(mender, kind, at, message, setDuration(kind, message));
      return left;
    }
    if (left === undefined || real === undefined) return duration;
    if (duration > left + this.tolerance && (start > 0 || typeof offset === "number")) {
      const message = `${seconds(start)} + ${seconds(duration)} is after the end, ${seconds(real)}`;
      this.report(mender, "pastEnd", at, message, setDuration("pastEnd", message));
      return left;
    }
    if (typeof offset !== "number" && Math.abs(duration - real) > this.tolerance) {
      const message = `the manifest says ${seconds(duration)}, the audio has ${seconds(real)}`;
      this.report(mender, "wrongDuration", at, message, setDuration("wrongDuration", message));
      return real;
    }
    return duration;
  }

  private format({ value }: ManifestLine, at: string, { rate, channels }: { rate: number; channels: number }, mender: LineMender | undefined): void {
    const count = (counts: Map<number, { count: number; at: string }>, key: number): void => {
      const seen = counts.get(key);
      if (seen !== undefined) seen.count++;
      else counts.set(key, { count: 1, at });
    };
    count(this.rates, rate);
    count(this.channels, channels);
    for (const key of ["sampling_rate", "sample_rate"] as const) {
      const said = value[key];
      if (said === undefined || said === null || said === rate) continue;
      const message = `"${key}" is ${JSON.stringify(said)}, the audio has ${rate} Hz`;
      this.report(mender, "wrongSamplingRate", at, message, (m) => m.set("wrongSamplingRate", message, key, rate));
    }
    for (const key of ["channels", "num_channels"] as const) {
      const said = value[key];
      if (typeof said !== "number" || said === channels) continue;
      const message = `"${key}" is ${said}, the audio has ${channels}`;
      this.report(mender, "wrongChannels", at, message, (m) => m.set("wrongChannels", message, key, channels));
    }
    if (channels > 1) this.issues.add("severalChannels", at, `${channels} channels`);
  }

  private name(audio: string, at: string): void {
    const { high, low } = hashText(audio);
    const known = this.files.size;
    if (this.files.add(high, low) < known) return; // the same file again
    const { base, extension } = flattenPath(audio);
    if (/-sub\d+$/.test(base)) this.issues.add("subSuffix", at, audio);
    else if (audio.includes("-sub")) this.issues.add("subInPath", at, audio);
    const name = hashText(base + extension);
    const names = this.names.size;
    if (this.names.add(name.high, name.low) < names) this.issues.add("duplicateMember", at, `${audio} becomes ${base}${extension}, as an earlier file does`);
  }

  private duplicates({ value, line, path }: ManifestLine, at: string, audio: string | undefined, mender: LineMender | undefined): void {
    if (audio === undefined) return;
    const { high, low } = hashText(`${audio}\n${String(value["offset"] ?? 0)}\n${String(value["duration"])}`);
    const known = this.utterancesSeen.size;
    const number = this.utterancesSeen.add(high, low);
    if (number === known) {
      this.utteranceLines.push(Math.max(0, this.manifests.indexOf(path)) * 2 ** 40 + line);
      return;
    }
    const first = this.utteranceLines.get(number);
    const message = `the same as ${this.manifests[Math.floor(first / 2 ** 40)] ?? path}:${first % 2 ** 40}`;
    this.report(mender, "duplicateUtterance", at, message, (m) => m.drop("duplicateUtterance", message));
  }

  /** @returns the text that counts from here on */
  private text({ value }: ManifestLine, at: string, mender: LineMender | undefined): string | undefined {
    const written = value["text"];
    if (written === undefined && typeof value["text_filepath"] === "string") return undefined;
    if (written !== undefined && typeof written !== "string" && !isSpans(written)) {
      const message = `"text" is ${JSON.stringify(written)?.slice(0, 60)}`;
      const keep = written === null ? "" : typeof written === "number" ? String(written) : undefined;
      this.report(mender, "badText", at, message, (m) => (keep === undefined ? m.drop("badText", message) : m.set("badText", message, "text", keep)));
      return keep;
    }
    const text = textOf(value) ?? "";
    if (text.trim() === "") {
      this.issues.add("emptyText", at, written === undefined ? 'no "text"' : "the text is empty");
      return text;
    }
    const lang = value["target_lang"] ?? value["lang"];
    this.characters.add(typeof lang === "string" ? lang.replace(/^<\|(.+)\|>$/, "$1") : "", text, at);
    if (!controls.test(text)) return text;
    const [bad] = controls.exec(text) as RegExpExecArray;
    const message = `${showCharacter(bad)} in "${[...text]
      .slice(0, 40)
      .join("")
      .replace(/[\p{C}]/gu, "\u00b7")}"`;
    const mended = text.replace(controlRuns, " ").trim();
    this.report(mender, "controlCharacter", at, message, typeof written === "string" ? (m) => m.set("controlCharacter", message, "text", mended) : undefined);
    return mended;
  }

  private tokens(text: string, duration: number, at: string, mender: LineMender | undefined): void {
    const { tokenizer, ctc = true, sampleRate = 16000 } = this.options;
    if (tokenizer === undefined) return;
    const frames = encoderFrames(featureFrames(duration, sampleRate));
    const tokens = tokenizer.encode(text);
    const needed = neededFrames(tokens, ctc);
    if (needed <= frames) return;
    const message = `${tokens.length} tokens need ${needed} frames, ${seconds(duration)} give ${frames}`;
    this.report(mender, "tooManyTokens", at, message, (m) => m.drop("tooManyTokens", message));
  }

  private canary({ value }: ManifestLine, at: string, mender: LineMender | undefined): void {
    const { canary = "auto" } = this.options;
    if (canary === "none" || (canary === "auto" && !isCanary(value))) return;
    const version = canary !== "auto" ? canary : (value["task"] ?? value["taskname"]) === undefined ? "v2" : "v1";
    const { slots, errors, warnings } = examineCanary(value, { version, at });
    for (const error of errors) this.issues.add(/^no "/.test(withoutCode(error)) ? "canaryMissing" : "canaryValue", at, withoutCode(error));
    for (const warning of warnings) this.issues.add("canaryTask", at, withoutCode(warning));
    const spelled: Record<string, string> = { ...writeCanary({ ...slots, emotion: slots.emotion }, { version }) };
    const wrong = new Set(errors.map((error) => /"(\w+)"/.exec(withoutCode(error))?.[1]));
    for (const key of ["pnc", "itn", "timestamp", "diarize", "emotion"] as const) {
      const said = value[key];
      if (said === undefined || said === null || wrong.has(key)) continue;
      // NeMo takes "Yes" and writes the token for no; booleans and numbers are no strings; emotions have to be the token itself.
      const right = key === "emotion" ? `<|emo:${slots.emotion}|>` : slots[key] ? "yes" : "no";
      const fine = key === "emotion" ? said === right : typeof said === "string" && (said === said.toLowerCase() || said === "True" || said === "False" || said === "No");
      if (fine || (version === "v1" && key !== "pnc")) continue;
      const message = `"${key}" is ${JSON.stringify(said)}, NeMo reads ${JSON.stringify(spelled[key] ?? right)}`;
      this.report(mender, "canarySpelling", at, message, (m) => m.set("canarySpelling", message, key, right));
    }
  }

  /** What only the whole tells. */
  finish(): void {
    const [most] = [...this.rates].sort((a, b) => b[1].count - a[1].count);
    for (const [rate, { count, at }] of this.rates)
      if (most !== undefined && rate !== most[0]) this.issues.add("mixedSamplingRates", at, `${rate} Hz, where most have ${most[0]} Hz`, { count });
    for (const { character, lang, count, at, why } of this.characters.unusual())
      this.issues.add("unusualCharacter", at, `${showCharacter(character)}${lang === "" ? "" : ` in ${lang}`}, ${count} times: ${why}`, { count });
  }
}

/** Headers by path, in the order of the lines; those of a few thousand files are kept for segments of the same recordings. */
class Headers {
  private readonly cache = new Map<string, HeaderResult>();
  private readonly journal: HeaderJournal;
  private readonly workers: number;
  private readonly decode: boolean;

  constructor(journal: HeaderJournal, workers: number, decode: boolean) {
    this.journal = journal;
    this.workers = workers;
    this.decode = decode;
  }

  async read(paths: readonly string[], signal: AbortSignal | undefined): Promise<ReadonlyMap<string, HeaderResult>> {
    if (this.cache.size > 10_000) this.cache.clear();
    const wanted: string[] = [];
    for (const path of new Set(paths)) {
      if (this.cache.has(path)) continue;
      const known = await this.journal.known(path);
      if (known === undefined) wanted.push(path);
      else this.cache.set(path, known);
    }
    await inParallel(wanted, this.workers, async (path) => {
      if (signal?.aborted) return;
      this.cache.set(path, await readHeader(path, { decode: this.decode }));
    });
    for (const path of wanted) {
      const result = this.cache.get(path);
      if (result !== undefined) this.journal.keep(path, result);
    }
    return this.cache;
  }
}

/**
 * Checks manifests, and mends them where `fix` is given.
 * @throws ManifestError MANIFEST_PRETTY_PRINTED; FormatError of reading and writing; an AbortError where `signal` ended it
 */
export async function checkManifest(spec: ManifestSpec, options: CheckOptions = {}): Promise<CheckReport> {
  const { audio = "headers", workers = 16, fix, resumeFile = "auto", signal, onProgress } = options;
  return withReplay(spec, async (source) => {
    const named = manifestPaths(spec).map((path) => (path === "-" ? "stdin" : path));
    const first = manifestPaths(spec)[0] as string;
    const side = audio === "none" || resumeFile === "none" || (resumeFile === "auto" && first === "-") ? undefined : resumeFile === "auto" ? `${first}.check` : resumeFile;
    const journal = new HeaderJournal(side, source, audio);
    const headers = new Headers(journal, workers, audio === "decode");
    const checker = new Checker(options, named);
    const out = fix === undefined ? undefined : new ManifestWriter(fix);
    const list = fix === undefined ? undefined : new ManifestWriter(changesPath(fix));
    const rebase = new Rebaser(fix ?? "-", "auto");
    const sums = { kept: 0, changed: 0, dropped: 0 };
    try {
      const badLines: LineError[] = [];
      const errors = (error: LineError): void => {
        checker.bad(error);
        if (list !== undefined) badLines.push(error);
      };
      for await (const batch of readManifestBatches(source, { onError: errors })) {
        for (const error of badLines.splice(0)) {
          sums.dropped++;
          const full = list?.writeText(
            dumpPython({ at: error.at, action: "dropped", kind: error.code === "MANIFEST_NOT_AN_OBJECT" ? "notAnObject" : "badLine", why: withoutCode(error) }),
          );
          if (full) await full;
        }
        const lines = batch.map((line) => (named.includes(line.path) ? line : { ...line, path: named[source.indexOf(line.path)] ?? line.path }));
        // In small groups, so that an interrupt is heard and progress is seen.
        for (let start = 0; start < lines.length; start += 256) {
          signal?.throwIfAborted();
          const group = lines.slice(start, start + 256);
          const places = group.map((line) => placesOf(line, checker));
          const found =
            audio === "none"
              ? undefined
              : await headers.read(
                  places.flatMap((place) => place.files),
                  signal,
                );
          signal?.throwIfAborted();
          for (const [i, line] of group.entries()) {
            const place = places[i] as Place;
            const mender = out === undefined ? undefined : new LineMender(line, `${line.path}:${line.line}`);
            if (place.skip) checker.skipped++;
            else checker.line(line, place.name, found && merge(place.files.map((file) => found.get(file))), mender);
            if (mender === undefined || out === undefined || list === undefined) continue;
            for (const change of mender.changes) {
              const full = list.writeText(dumpChange(change));
              if (full) await full;
            }
            if (mender.dropped) {
              sums.dropped++;
              continue;
            }
            const text = mender.mended();
            if (text !== undefined) sums.changed++;
            sums.kept++;
            const full = out.writeText(rebase.text(text === undefined ? line : { ...line, text }));
            if (full) await full;
          }
          onProgress?.(group.length);
        }
      }
      for (const error of badLines.splice(0)) {
        sums.dropped++;
        list?.writeText(dumpPython({ at: error.at, action: "dropped", kind: error.code === "MANIFEST_NOT_AN_OBJECT" ? "notAnObject" : "badLine", why: withoutCode(error) }));
      }
      checker.finish();
      await out?.close();
      await list?.close();
    } catch (error) {
      await journal.close();
      out?.abandon();
      list?.abandon();
      throw error;
    }
    await journal.remove();
    return reportOf(checker, named, journal.reused, fix === undefined ? undefined : { out: fix, changes: changesPath(fix), ...sums });
  });
}

interface Place {
  skip: boolean;
  /** What the line is called by, where it has audio. */
  name: string | undefined;
  /** Files whose headers are to be read. */
  files: readonly string[];
}

function placesOf(line: ManifestLine, checker: Checker): Place {
  if (isSkipped(line.value)) return { skip: true, name: undefined, files: [] };
  const audio = audioOf(line.value);
  if (audio === undefined) return { skip: false, name: undefined, files: [] };
  const places = (typeof audio === "string" ? [audio] : audio).map((one) => resolveAudioPath(one, line.path));
  for (const { from } of places) checker.audioFrom[from] = (checker.audioFrom[from] ?? 0) + 1;
  return {
    skip: false,
    name: places.map(({ path }) => path).join("\n"),
    files: places.filter(({ from }) => from !== "member" && from !== "url").map(({ path }) => path),
  };
}

/** The header of an utterance whose channels lie in several files. */
function merge(headers: readonly (HeaderResult | undefined)[]): HeaderResult | undefined {
  const [first, ...others] = headers;
  if (first === undefined || others.length === 0) return first;
  const failed = headers.find((header) => header !== undefined && "failure" in header);
  if (failed !== undefined || "failure" in first) return failed;
  return { ...first, channels: first.channels + others.reduce((sum, header) => sum + (header !== undefined && !("failure" in header) ? header.channels : 0), 0) };
}

function reportOf(checker: Checker, manifests: string[], resumed: number, fix: CheckReport["fix"]): CheckReport {
  const kinds = checker.issues.list();
  const sum = (severity: "error" | "warning"): number => kinds.filter(({ kind }) => issueKinds[kind].severity === severity).reduce((total, { count }) => total + count, 0);
  return {
    manifests,
    utterances: checker.utterances,
    skipped: checker.skipped,
    seconds: checker.seconds,
    errors: sum("error"),
    warnings: sum("warning"),
    kinds,
    audioFrom: checker.audioFrom,
    samplingRates: Object.fromEntries([...checker.rates].map(([rate, { count }]) => [rate, count])),
    channels: Object.fromEntries([...checker.channels].map(([channels, { count }]) => [channels, count])),
    resumed,
    ...(fix === undefined ? {} : { fix }),
  };
}
