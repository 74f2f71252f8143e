/**
 * Reads tar archives member by member: v7, ustar, GNU and PAX, plain or packed by gzip, bzip2 or xz. Memory is bounded by the largest wanted
 * member. Damage is reported and what follows it is found again, so that a bad block costs one member and not the shard.
 */
import { FormatError } from "../../util/errors.ts";
import { decodeSurrogateEscape } from "../surrogateEscape.ts";
import { applyPaxRecords, blockSize, isZeroBlock, paddedSize, parsePaxRecords, parseTarHeader, type RawTarHeader, type TarHeader, tarTypes } from "./header.ts";
import { openTarSource, type TarSource } from "./source.ts";

/** A member, and where it stands in the (unpacked) archive. */
export interface TarMember extends TarHeader {
  /** Where its headers begin, those of GNU and PAX included: what `.idx` files hold. */
  headerOffset: number;
  dataOffset: number;
  /** All of its bytes; undefined where they were not wanted. */
  data: Buffer | undefined;
}

/** How to read an archive. */
export interface ReadTarOptions {
  /** Which members' bytes are wanted: all by default, false for none. */
  data?: boolean | ((member: TarMember) => boolean);
  /** Called with each damage, which is then passed over. Without it the first one throws. */
  onDamaged?: (error: FormatError) => void;
  /** Told what is odd, but no damage: a missing end mark. */
  onNote?: (message: string) => void;
}

/** More than any name or record takes: a header that claims more is damaged. */
const maxExtension = 1 << 24;
const extensionTypes: ReadonlySet<string> = new Set([tarTypes.gnuLongName, tarTypes.gnuLongLink, tarTypes.paxHeader, tarTypes.paxGlobalHeader, tarTypes.solarisHeader]);

/** True for members that hold a file's bytes. */
export const isRegular = ({ type }: Pick<TarMember, "type">): boolean => type === tarTypes.file || type === tarTypes.contiguousFile;

/** The records that a member is read by, and whether it is sparse. */
const usedRecords: ReadonlySet<string> = new Set(["path", "linkpath", "uname", "gname", "uid", "gid", "mtime", "size"]);
const sparseRecord = "GNU.sparse.";

/** Adds the records that are used; what else an archive holds would only take time, and room without end. */
function keepRecords(into: Map<string, string>, records: ReadonlyMap<string, string>): void {
  for (const [key, value] of records) {
    if (usedRecords.has(key)) into.set(key, value);
    else if (key.startsWith(sparseRecord)) into.set(sparseRecord, "");
  }
}

const textOf = (data: Buffer): string => {
  const end = data.indexOf(0);
  return decodeSurrogateEscape(end < 0 ? data : data.subarray(0, end));
};

/**
 * The members of an archive in order, special ones (folders, links) included.
 * @param name what errors call it
 * @throws FormatError TAR_BAD, TAR_TRUNCATED, unless `onDamaged` takes them; errors of the source pass
 */
export async function* readTarSource(source: TarSource, name: string, { data = true, onDamaged, onNote }: ReadTarOptions = {}): AsyncGenerator<TarMember> {
  const globals = new Map<string, string>();
  let local: Map<string, string> | undefined;
  let longName: string | undefined;
  let longLink: string | undefined;
  let start = -1; // of the member's first header
  let lost = false; // looking for the next header after damage
  const damaged = (error: FormatError): void => {
    if (!onDamaged) throw error;
    onDamaged(error);
  };
  const place = (): string => `${name}, byte ${source.position - blockSize}`;
  const truncated = (what: string, wanted: number, got: number): FormatError =>
    new FormatError("TAR_TRUNCATED", {
      at: `${name}:${what}`,
      message: `the archive ends inside of this member: ${got} of its ${wanted} bytes are there`,
      fix: "copy or write the archive again",
    });
  const forget = (): void => {
    local = undefined;
    longName = undefined;
    longLink = undefined;
    start = -1;
  };

  for (;;) {
    const block = await source.take(blockSize);
    if (block.length < blockSize) {
      if (block.length > 0 && !isZeroBlock(block)) {
        if (!lost)
          damaged(new FormatError("TAR_TRUNCATED", { at: name, message: `the archive ends inside of a header (${block.length} of ${blockSize} bytes)`, fix: "copy it again" }));
      } else if (start >= 0)
        damaged(new FormatError("TAR_TRUNCATED", { at: name, message: "the archive ends before the member that its last header announces", fix: "copy it again" }));
      else if (!lost) onNote?.(`${name}: there is no end mark; if members are missing, it was cut off`);
      return;
    }
    if (isZeroBlock(block)) {
      if (lost) continue; // zeros may be a part of what is passed over
      const next = await source.take(blockSize);
      if (next.length < blockSize || isZeroBlock(next)) {
        if (start >= 0) damaged(new FormatError("TAR_BAD", { at: name, message: "a name or PAX header stands before the end mark, without its member" }));
        if (!source.seekable) await source.skip(Number.POSITIVE_INFINITY); // a packed archive's checksum comes last
        return;
      }
      damaged(new FormatError("TAR_BAD", { at: `${name}, byte ${source.position - 2 * blockSize}`, message: "a block of zeros stands between the members" }));
      lost = true;
      forget();
      continue;
    }
    let raw: RawTarHeader;
    try {
      raw = parseTarHeader(block, place());
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      if (!lost) damaged(error);
      lost = true;
      forget();
      continue;
    }
    lost = false;
    const headerAt = source.position - blockSize;
    if (start < 0) start = headerAt;
    try {
      if (extensionTypes.has(raw.type)) {
        if (raw.size > maxExtension) throw new FormatError("TAR_BAD", { at: place(), message: `a name or PAX header of ${raw.size} bytes` });
        const bytes = await source.takeOwn(paddedSize(raw.size));
        if (bytes.length < raw.size) throw truncated(raw.name, raw.size, bytes.length);
        const content = bytes.subarray(0, raw.size);
        if (raw.type === tarTypes.gnuLongName) longName = textOf(content);
        else if (raw.type === tarTypes.gnuLongLink) longLink = textOf(content);
        else {
          const records = parsePaxRecords(content, `${name}, byte ${headerAt}`);
          if (raw.type === tarTypes.paxGlobalHeader) keepRecords(globals, records);
          else {
            local ??= new Map();
            keepRecords(local, records);
          }
        }
        continue;
      }
      const records = local ? (globals.size > 0 ? new Map([...globals, ...local]) : local) : globals;
      const header = records.size > 0 ? applyPaxRecords(raw, records, `${name}, byte ${headerAt}`) : raw;
      const member: TarMember = {
        name: local?.has("path") ? header.name : (longName ?? header.name),
        mode: header.mode,
        uid: header.uid,
        gid: header.gid,
        size: /^[1-6]$/.test(header.type) ? 0 : header.size, // links and folders have no data, whatever they claim
        mtime: header.mtime,
        type: header.type,
        linkName: local?.has("linkpath") ? header.linkName : (longLink ?? header.linkName),
        userName: header.userName,
        groupName: header.groupName,
        headerOffset: start,
        dataOffset: source.position,
        data: undefined,
      };
      const sparse = raw.type === tarTypes.gnuSparse || records.has(sparseRecord);
      forget();
      if (sparse) {
        if (raw.type === tarTypes.gnuSparse) await skipSparseMaps(source, block);
        await source.skip(paddedSize(member.size));
        damaged(new FormatError("TAR_BAD", { at: `${name}:${member.name}`, message: "a sparse member, which is not read", fix: "write the archive without --sparse" }));
        continue;
      }
      const wanted = isRegular(member) && (typeof data === "boolean" ? data : data(member));
      if (wanted) {
        const bytes = await source.takeOwn(member.size);
        if (bytes.length < member.size) throw truncated(member.name, member.size, bytes.length);
        member.data = bytes;
        await source.skip(paddedSize(member.size) - member.size);
      } else {
        const skipped = await source.skip(paddedSize(member.size));
        if (skipped < member.size) throw truncated(member.name, member.size, skipped);
      }
      yield member;
    } catch (error) {
      if (!(error instanceof FormatError) || !error.code.startsWith("TAR_")) throw error;
      forget();
      damaged(error);
      lost = true;
    }
  }
}

/** Old GNU sparse members carry more of their map in blocks behind the header. */
async function skipSparseMaps(source: TarSource, header: Buffer): Promise<void> {
  for (let more = header[482] === 1; more; ) more = (await source.take(blockSize))[504] === 1;
}

/**
 * The members of the archive at `path`, in order and as fast as the disk gives them.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, GZIP_BAD, TAR_UNPACKER; TAR_BAD, TAR_TRUNCATED unless `onDamaged` takes them
 */
export async function* readTar(path: string, options: ReadTarOptions = {}): AsyncGenerator<TarMember> {
  const { source } = await openTarSource(path, { window: options.data === false ? 1 << 16 : 1 << 20 });
  try {
    yield* readTarSource(source, path, options);
  } finally {
    await source.close();
  }
}
