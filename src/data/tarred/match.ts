/**
 * Which member of a tar an entry's audio is: the exact name, the name without "-subN", then the same two without their suffixes (members may
 * have been transcoded since the manifest was written), then without folders, where that is no other entry's audio and there is one such member only.
 * Source: the conventions of NeMo's converter and readers, without their losses.
 */
import type { TarMember } from "../../formats/tar/index.ts";

/** What an entry is matched by. */
interface Named {
  /** The audio as the manifest writes it. */
  name: string;
}

/** Members with the entries that play them. */
export interface Match<E> {
  /** In the order of the tar; entries in the order of the manifest. */
  pairs: { member: TarMember; entries: E[] }[];
  entriesWithoutMember: E[];
}

/** "./a/b.wav" and "a/b.wav" are the same member. */
export const normalName = (name: string): string => name.replace(/^(?:\.\/+)+/, "");

const subPattern = /^(.+)-sub\d+(\.[^./]+)?$/s;

/** The name of the file that an entry's segment was cut from: "a-sub3.wav" is "a.wav"; undefined for other names. */
export function withoutSub(name: string): string | undefined {
  const parts = subPattern.exec(name);
  return parts ? `${parts[1]}${parts[2] ?? ""}` : undefined;
}

/** A name without its last suffix. */
export function stemOf(name: string): string {
  const dot = name.lastIndexOf(".");
  return dot > name.lastIndexOf("/") + 1 ? name.slice(0, dot) : name;
}

function group(members: readonly TarMember[], key: (name: string) => string): Map<string, TarMember[]> {
  const groups = new Map<string, TarMember[]>();
  for (const member of members) {
    const name = key(normalName(member.name));
    const list = groups.get(name);
    if (list) list.push(member);
    else groups.set(name, [member]);
  }
  return groups;
}

/**
 * Gives every entry its member. Where a name stands several times in the tar and as often in the manifest, they are paired in order;
 * else all entries of a name go to its first member.
 * @param members those that hold audio
 * @param played members that other entries play already
 */
export function matchEntries<E extends Named>(members: readonly TarMember[], entries: readonly E[], played: Iterable<TarMember> = []): Match<E> {
  const byName = group(members, (name) => name);
  let byStem: Map<string, TarMember[]> | undefined;
  const base = (name: string): string => name.slice(name.lastIndexOf("/") + 1);
  const find = (written: string): TarMember[] | undefined => {
    const name = normalName(written);
    const cut = withoutSub(name);
    const exact = byName.get(name) ?? (cut === undefined ? undefined : byName.get(cut));
    if (exact) return exact;
    byStem ??= group(members, stemOf);
    return byStem.get(stemOf(name)) ?? (cut === undefined ? undefined : byStem.get(stemOf(cut)));
  };

  const wanted = new Map<TarMember[], E[]>();
  const want = (found: TarMember[], entry: E): void => {
    const list = wanted.get(found);
    if (list) list.push(entry);
    else wanted.set(found, [entry]);
  };
  const left: E[] = [];
  for (const entry of entries) {
    const found = find(entry.name);
    if (found) want(found, entry);
    else left.push(entry);
  }
  const entriesWithoutMember: E[] = [];
  if (left.length > 0) {
    const taken = new Set([...played, ...[...wanted.keys()].flat()]);
    const byBase = group(
      members.filter((member) => !taken.has(member)),
      (one) => stemOf(base(one)),
    );
    for (const entry of left) {
      const name = normalName(entry.name);
      const cut = withoutSub(name);
      const found = byBase.get(stemOf(base(name))) ?? (cut === undefined ? undefined : byBase.get(stemOf(base(cut))));
      if (found?.length === 1) want(found, entry);
      else entriesWithoutMember.push(entry);
    }
  }
  const entriesOf = new Map<TarMember, E[]>();
  const add = (member: TarMember, entry: E): void => {
    const list = entriesOf.get(member);
    if (list) list.push(entry);
    else entriesOf.set(member, [entry]);
  };
  for (const [found, list] of wanted) list.forEach((entry, i) => add(found[list.length === found.length ? i : 0] as TarMember, entry));
  const pairs = members.flatMap((member) => {
    const list = entriesOf.get(member);
    return list ? [{ member, entries: list }] : [];
  });
  return { pairs, entriesWithoutMember };
}
