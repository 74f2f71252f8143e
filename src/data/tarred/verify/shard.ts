/** Verifies one tar file against its entries. */
import { audioInfo, readAudio } from "../../../audio/index.ts";
import { isRegular, readTar, type TarMember } from "../../../formats/tar/index.ts";
import { SeracError } from "../../../util/errors.ts";
import { normalName, stemOf, withoutSub } from "../match.ts";
import type { Findings } from "./findings.ts";
import type { VerifiedEntry } from "./layout.ts";

/** How audio is looked at. */
export interface DecodeOptions {
  /** False looks at headers alone. */
  decode: boolean;
  /** Seconds by which an entry's duration may differ from its audio. */
  tolerance: number;
}

/** The entries of a shard by the member that plays them. */
function byMember(entries: readonly VerifiedEntry[]): Map<string, VerifiedEntry[]> {
  const wanted = new Map<string, VerifiedEntry[]>();
  const names = new Set(entries.map(({ name }) => normalName(name)));
  for (const entry of entries) {
    const name = normalName(entry.name);
    // NeMo's repeats: x-sub1.wav plays x.wav, if no file of that very name was stored.
    const whole = withoutSub(name);
    const key = whole !== undefined && names.has(whole) ? whole : name;
    if (wanted.get(key)?.push(entry) === undefined) wanted.set(key, [entry]);
  }
  return wanted;
}

/** Reads a tar file from its beginning to its end, decodes its members, and compares them with its entries. */
export class ShardVerifier {
  readonly path: string;
  private readonly entries: readonly VerifiedEntry[];
  private readonly findings: Findings;
  private readonly options: DecodeOptions;
  /** Names of the regular members. */
  readonly members: string[] = [];
  /** Of audio that was decoded. */
  seconds = 0;
  private readonly tasks = new Set<Promise<void>>();

  constructor(path: string, entries: readonly VerifiedEntry[], findings: Findings, options: DecodeOptions) {
    this.path = path;
    this.entries = entries;
    this.findings = findings;
    this.options = options;
  }

  async run(): Promise<void> {
    const wanted = byMember(this.entries);
    const stems = new Map([...wanted.keys()].map((name) => [stemOf(name), name]));
    const seenEntries = new Set<string>();
    for (const { name, origin } of this.entries) {
      if (seenEntries.has(name)) this.findings.add("entryDuplicate", `${origin}: ${name}`);
      seenEntries.add(name);
    }
    const seen = new Set<string>();
    const played = new Set<string>();
    try {
      for await (const member of readTar(this.path, { onDamaged: (error) => this.findings.add("tarDamaged", error.message) })) {
        if (!isRegular(member)) continue;
        const name = normalName(member.name);
        this.members.push(name);
        if (seen.has(name)) {
          this.findings.add("memberDuplicate", `${this.path}:${name}`);
          continue;
        }
        seen.add(name);
        let key: string | undefined = name;
        if (!wanted.has(name)) {
          key = stems.get(stemOf(name));
          if (key === undefined) this.findings.add("memberWithoutEntry", `${this.path}:${name}`);
          else this.findings.add("wrongExtension", `${this.path}:${name}: ${wanted.get(key)?.[0]?.origin} has ${key}`);
        }
        if (key !== undefined) played.add(key);
        await this.decode(member, key === undefined ? [] : (wanted.get(key) as VerifiedEntry[]));
      }
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      this.findings.add("tarDamaged", error.message);
    }
    await Promise.all(this.tasks);
    for (const [name, entries] of wanted) if (!played.has(name)) for (const { origin } of entries) this.findings.add("memberMissing", `${this.path}:${name}: named by ${origin}`);
  }

  /** Starts decoding; waits where much is under way. */
  private async decode(member: TarMember, entries: readonly VerifiedEntry[]): Promise<void> {
    const task = this.look(member, entries).finally(() => this.tasks.delete(task));
    this.tasks.add(task);
    if (this.tasks.size >= 6) await Promise.race(this.tasks);
  }

  private async look({ name, data }: TarMember, entries: readonly VerifiedEntry[]): Promise<void> {
    const at = `${this.path}:${name}`;
    let length: number;
    try {
      if (this.options.decode) {
        const { channels, sampleRate } = await readAudio(data as Buffer, {}, at);
        length = (channels[0]?.length ?? 0) / sampleRate;
        this.seconds += length;
      } else length = (await audioInfo(data as Buffer, at)).durationSeconds;
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      this.findings.add("audio", error.message);
      return;
    }
    for (const { offset, duration, origin } of entries) {
      if (duration === undefined) continue;
      const start = offset ?? 0;
      // A part may be shorter than its file, the whole of it may not.
      const wrong = offset === undefined && entries.length === 1 ? Math.abs(duration - length) > this.options.tolerance : start + duration > length + this.options.tolerance;
      if (wrong) this.findings.add("duration", `${at}: ${length.toFixed(3)} s of audio, and ${origin} says ${start > 0 ? `${start} + ` : ""}${duration} s`);
    }
  }
}
