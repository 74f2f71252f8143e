/** Reads the members of planned utterances: in their order by large reads, or one by one; damage comes out as a value, not as an exception. */
import { openTarSource, readTarSource, type TarSource } from "../../formats/tar/index.ts";
import { FormatError, internal, SeracError } from "../../util/errors.ts";
import type { Random } from "../../util/random.ts";
import { type MemberPlace, readMember } from "../audioSource.ts";
import { offsetOf, type TarredItem, type TarredShard } from "./opened.ts";

/** An utterance that is to be read. */
export interface Planned {
  item: TarredItem;
  shard: TarredShard;
  repeated: boolean;
}

/** The same with its member's bytes. */
export interface Read extends Planned {
  bytes: Buffer;
}

/** An utterance that cannot be read. */
export interface Damaged extends Planned {
  error: SeracError;
}

/** Where the audio lies in files, decoding reads it. */
const noBytes = Buffer.alloc(0);

/** Only asked for where the shard is a tar. */
const memberOf = ({ item }: Planned): MemberPlace => item.cut.member ?? internal("an utterance of a tar has no member");

/** Reads one utterance by itself. */
export async function readOne(one: Planned): Promise<Read | Damaged> {
  if (one.shard.compression === "files") return { ...one, bytes: noBytes };
  try {
    return { ...one, bytes: await readMember(one.shard.path, memberOf(one)) };
  } catch (error) {
    if (!(error instanceof SeracError)) throw error;
    return { ...one, error };
  }
}

/** Reads stretches of shards, each member once though several utterances may play it. */
export async function* readInOrder(planned: readonly Planned[]): AsyncGenerator<Read | Damaged> {
  for (let i = 0; i < planned.length; ) {
    const { shard, item } = planned[i] as Planned;
    if (shard.compression === "files") {
      yield { ...(planned[i++] as Planned), bytes: noBytes };
      continue;
    }
    let end = i;
    let place = offsetOf(item);
    // A stretch ends with its shard, and where it would have to go back (a part that is repeated).
    while (end < planned.length && planned[end]?.shard === shard && offsetOf((planned[end] as Planned).item) >= place) place = offsetOf((planned[end++] as Planned).item);
    yield* shard.compression === "none" ? readPlain(planned.slice(i, end)) : readPacked(planned.slice(i, end));
    i = end;
  }
}

async function* readPlain(stretch: readonly Planned[]): AsyncGenerator<Read | Damaged> {
  const { path } = (stretch[0] as Planned).shard;
  const { source } = await openTarSource(path);
  try {
    for (let i = 0; i < stretch.length; ) {
      const member = memberOf(stretch[i] as Planned);
      const bytes = await takeMember(source, member.offset, member.size);
      for (; i < stretch.length && memberOf(stretch[i] as Planned).offset === member.offset; i++) {
        const one = stretch[i] as Planned;
        yield bytes.length < member.size ? { ...one, error: cutShort(path, member.name, member.size, bytes.length) } : { ...one, bytes };
      }
    }
  } finally {
    await source.close();
  }
}

async function takeMember(source: TarSource, offset: number, size: number): Promise<Buffer> {
  await source.skip(offset - source.position);
  return source.takeOwn(size);
}

const cutShort = (path: string, name: string, size: number, got: number): FormatError =>
  new FormatError("TAR_TRUNCATED", { at: `${path}:${name}`, message: `the archive ends inside of this member: ${got} of its ${size} bytes are there`, fix: "copy it again" });

async function* readPacked(stretch: readonly Planned[]): AsyncGenerator<Read | Damaged> {
  const { path } = (stretch[0] as Planned).shard;
  const wanted = new Map<number, Planned[]>();
  for (const one of stretch) {
    const { offset } = memberOf(one);
    wanted.set(offset, [...(wanted.get(offset) ?? []), one]);
  }
  const { source } = await openTarSource(path);
  let failure: SeracError | undefined;
  try {
    // Damage of headers was reported when the dataset was opened.
    for await (const { dataOffset, data } of readTarSource(source, path, { data: (member) => wanted.has(member.dataOffset), onDamaged: () => {} })) {
      if (data) for (const one of wanted.get(dataOffset) as Planned[]) yield { ...one, bytes: data };
      wanted.delete(dataOffset);
      if (wanted.size === 0) return;
    }
  } catch (error) {
    if (!(error instanceof SeracError)) throw error;
    failure = error;
  } finally {
    await source.close();
  }
  for (const list of wanted.values()) for (const one of list) yield { ...one, error: failure ?? cutShort(path, memberOf(one).name, memberOf(one).size, 0) };
}

/** Draws from a buffer of `size`, as WebDataset's shuffle does. What waits in it is copied, so that it holds no read windows. */
export async function* shuffleBuffer<T extends object>(items: AsyncIterable<T>, size: number, random: Random): AsyncGenerator<T> {
  const buffer: T[] = [];
  for await (const item of items) {
    buffer.push("bytes" in item ? { ...item, bytes: Buffer.from(item.bytes as Buffer) } : item);
    if (buffer.length < size) continue;
    const i = random.integer(0, buffer.length);
    const drawn = buffer[i] as T;
    buffer[i] = buffer.at(-1) as T;
    buffer.pop();
    yield drawn;
  }
  yield* random.shuffle(buffer);
}

/** All but the first `count`. */
export async function* skipFirst<T>(items: AsyncIterable<T>, count: number): AsyncGenerator<T> {
  let left = count;
  for await (const item of items) if (left-- <= 0) yield item;
}

/** Maps items up to `depth` ahead of who takes them, in order. */
export async function* aheadOf<T, R>(items: AsyncIterable<T> | Iterable<T>, depth: number, work: (item: T) => Promise<R>): AsyncGenerator<R> {
  const running: Promise<R>[] = [];
  for await (const item of items) {
    const result = work(item);
    result.catch(() => {}); // thrown when its turn comes
    running.push(result);
    if (running.length >= depth) yield await (running.shift() as Promise<R>);
  }
  while (running.length > 0) yield await (running.shift() as Promise<R>);
}
