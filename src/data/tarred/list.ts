/** The members of tars: by their `.idx` files or by all their headers, several tars at a time. */
import { buildTarIndex, indexPath, isRegular, listIndexed, openTarSource, readTarSource, type TarCompression, type TarMember, writeTarIndex } from "../../formats/tar/index.ts";
import { FormatError } from "../../util/errors.ts";
import { damage, type OpenOptions } from "./opened.ts";
import type { TarredReport } from "./report.ts";

/** A tar's members in order, special ones included. */
export interface Listing {
  path: string;
  compression: TarCompression;
  members: TarMember[];
}

/** The members of a tar, by its `.idx` file where one is wanted and fits. */
export async function listMembers(path: string, { index, onDamaged = "throw" }: OpenOptions, report: TarredReport, onWarning: (message: string) => void): Promise<Listing> {
  const damaged = (error: FormatError): void => damage(error, onDamaged, report, onWarning);
  const onNote = (note: string): void => void report.notes.push(note);
  if (index) {
    try {
      const members = await listIndexed(path);
      if (members) return { path, compression: "none", members };
    } catch (error) {
      if (!(error instanceof FormatError) || error.code === "TAR_COMPRESSED" || !error.code.startsWith("TAR_")) throw error;
      onWarning(`${error.message}; reading all headers instead`);
    }
    const built = await buildTarIndex(path, { onDamaged: damaged, onNote });
    try {
      writeTarIndex(path, built.index);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      report.notes.push(`${indexPath(path)} cannot be written; it is built again at the next start`);
    }
    return { path, compression: "none", members: built.members };
  }
  const members: TarMember[] = [];
  const { source, compression } = await openTarSource(path, { window: 1 << 16 });
  try {
    for await (const member of readTarSource(source, path, { data: false, onDamaged: damaged, onNote })) members.push(member);
  } catch (error) {
    // Within a packed tar the rest of the shard is lost.
    if (!(error instanceof FormatError) || (error.code !== "GZIP_BAD" && error.code !== "TAR_TRUNCATED")) throw error;
    damaged(error);
  } finally {
    await source.close();
  }
  return { path, compression, members };
}

/** Runs at most `width` at a time; results in order. Of several failures the first in the list is thrown, whichever came first in time. */
export async function eachOf<T, R>(items: readonly T[], width: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array<R>(items.length);
  const failures: { at: number; error: unknown }[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const at = next++;
      try {
        results[at] = await work(items[at] as T);
      } catch (error) {
        failures.push({ at, error });
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
  const [first] = failures.sort((a, b) => a.at - b.at);
  if (first) throw first.error;
  return results;
}

/** Hard links become members of their own name with the data of what they name: tar writes one where two paths are one file. */
export function resolveLinks(members: readonly TarMember[]): TarMember[] {
  const links = members.filter(({ type }) => type === "1");
  if (links.length === 0) return members.filter(isRegular);
  const byName = new Map(members.filter(isRegular).map((member) => [member.name, member]));
  return members.flatMap((member) => {
    if (isRegular(member)) return [member];
    const target = member.type === "1" ? byName.get(member.linkName) : undefined;
    return target ? [{ ...target, name: member.name }] : [];
  });
}
