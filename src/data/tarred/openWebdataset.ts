/** Opens WebDataset tars: samples become entries. */
import { audioInfo } from "../../audio/index.ts";
import { isRegular, readTar, type TarMember } from "../../formats/tar/index.ts";
import { FormatError, SeracError } from "../../util/errors.ts";
import type { ManifestEntry } from "../manifest/entry.ts";
import type { Listing } from "./list.ts";
import { damage, memberCut, type OpenOptions, type TarredItem, type TarredShard } from "./opened.ts";
import type { TarredReport } from "./report.ts";
import { groupSamples, sampleEntry, type WebdatasetSample } from "./webdataset.ts";

/** The samples of a WebDataset tar as entries: this reads its texts, and the audio's length where no json has it. */
export async function openWebdataset(
  { path, compression, members }: Listing,
  { onDamaged = "throw" }: OpenOptions,
  keep: (entry: ManifestEntry) => boolean,
  report: TarredReport,
  onWarning: (message: string) => void,
): Promise<TarredShard> {
  const samples = groupSamples(members.filter(isRegular));
  const texts = await readMembers(
    path,
    samples.flatMap(({ audio, json, text }) => (audio ? [json, text] : [])),
  );
  const saysDuration = ({ json }: WebdatasetSample): boolean => hasDuration((json && texts.get(json.headerOffset)?.toString("utf8")) ?? "");
  const silent = samples.flatMap((sample) => (saysDuration(sample) ? [] : [sample.audio]));
  const durations = new Map<number, number>();
  await readMembers(path, silent, async (member, data) => {
    try {
      durations.set(member.headerOffset, (await audioInfo(data, `${path}:${member.name}`)).durationSeconds);
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      damage(error, onDamaged, report, onWarning);
    }
  });
  const items: TarredItem[] = [];
  for (const sample of samples) {
    const { audio, json, text } = sample;
    if (!audio) {
      report.add("samplesWithoutAudio", `${path}:${sample.key}`);
      continue;
    }
    const duration = durations.get(audio.headerOffset);
    if (duration === undefined && !saysDuration(sample)) continue; // reported above
    try {
      const bytes = { json: json && texts.get(json.headerOffset), text: text && texts.get(text.headerOffset) };
      const entry = sampleEntry(sample, path, bytes, duration);
      if (keep(entry)) items.push({ cut: memberCut(entry, path, audio), value: entry.value });
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      damage(error, onDamaged, report, onWarning);
    }
  }
  return { path, compression, items };
}

/** True where a json member says the length itself, and not of something in it. */
function hasDuration(json: string): boolean {
  try {
    return typeof (JSON.parse(json) as { duration?: unknown } | null)?.duration === "number";
  } catch {
    return false; // told when the sample becomes an entry
  }
}

/** The bytes of some members, by the offset of their headers; given to `use` instead where there is one. */
async function readMembers(path: string, members: readonly (TarMember | undefined)[], use?: (member: TarMember, data: Buffer) => Promise<void>): Promise<Map<number, Buffer>> {
  const wanted = new Set(members.flatMap((member) => member?.headerOffset ?? []));
  const found = new Map<number, Buffer>();
  if (wanted.size === 0) return found;
  try {
    // Damage was reported when the members were listed.
    for await (const member of readTar(path, { data: ({ headerOffset }) => wanted.has(headerOffset), onDamaged: () => {} })) {
      if (!member.data) continue;
      if (use) await use(member, member.data);
      else found.set(member.headerOffset, Buffer.from(member.data)); // a copy: the data is a part of a window
    }
  } catch (error) {
    if (!(error instanceof FormatError) || (error.code !== "GZIP_BAD" && error.code !== "TAR_TRUNCATED")) throw error;
  }
  return found;
}
