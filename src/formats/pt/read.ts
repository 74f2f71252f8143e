/** Files of torch.save, of torch 1.6 and later (zip) and before (one pickle behind another): values now, elements of tensors when asked for. */
import { FormatError } from "../../util/errors.ts";
import { crc32 } from "../crc32.ts";
import { elementBytes, storageDtype, swapBytes } from "./dtypes.ts";
import { unpickle } from "./pickle.ts";
import { Cursor, fileSource, memorySource, type RangeSource } from "./source.ts";
import { PtStorage, type PtValue, PyGlobal, PyPlaceholder, PyTuple } from "./values.ts";
import { isZip, readZip, type ZipMember } from "./zip.ts";

/** An open file: its tensors can be read until it is closed. */
export interface PtFile {
  /** The path, or the name that was given. */
  readonly at: string;
  readonly form: "zip" | "legacy";
  readonly value: PtValue;
  /** Bytes of the pickle: how much `value` can hold without repeating itself. */
  readonly pickleBytes: number;
  /** Bytes of the file. */
  readonly size: number;
  close(): void;
}

const bad = (at: string, message: string): FormatError => new FormatError("PT_BAD", { at, message });

function swap(bytes: Uint8Array, width: number): void {
  for (let at = 0; at + width <= bytes.length; at += width) bytes.subarray(at, at + width).reverse();
}

/** The parts of a persistent id of a storage, or undefined for other ids. */
function storageId(id: PtValue): { kind: PyGlobal; key: string; location: string; size: number; view: PtValue } | undefined {
  if (!(id instanceof PyTuple) || id.items[0] !== "storage") return undefined;
  const [, kind, key, location, size, view = null] = id.items;
  if (!(kind instanceof PyGlobal) || typeof key !== "string" || typeof location !== "string" || typeof size !== "bigint") return undefined;
  return size >= 0n && size <= BigInt(Number.MAX_SAFE_INTEGER) ? { kind, key, location, size: Number(size), view } : undefined;
}

/** The dtype of a class of storages; undefined for those of other modules. */
const dtypeOf = ({ module, name }: PyGlobal): string | undefined => (/^torch(\.storage|\.cuda)?$/.test(module) ? storageDtype(name) : undefined);

/** Reads from a member. Where it is read from its beginning to its end, whole or in pieces, its checksum is compared. */
function checkedReader(source: RangeSource, member: ZipMember): (begin: number, into: Uint8Array) => void {
  let next = 0;
  let crc = 0;
  return (begin, into) => {
    source.read(member.begin + begin, into);
    if (begin === 0) next = crc = 0;
    if (begin !== next) return;
    crc = crc32(into, crc);
    next += into.byteLength;
    if (next === member.size && crc !== member.crc)
      throw new FormatError("PT_BAD", { at: source.at, message: `the checksum of its member ${member.name} is wrong`, fix: "copy the file again" });
  };
}

function readZipForm(source: RangeSource): Omit<PtFile, "at" | "size" | "close"> {
  const { at } = source;
  const members = readZip(source);
  const pickles = [...members.keys()].filter((name) => /^[^/]*\/data\.pkl$/.test(name));
  const [name] = pickles;
  if (name === undefined || pickles.length > 1) throw bad(at, `a zip archive ${name === undefined ? "without" : "with more than one"} data.pkl, so no file of torch.save`);
  const folder = name.slice(0, -"data.pkl".length);
  if (members.has(`${folder}constants.pkl`))
    throw new FormatError("PT_UNSUPPORTED", {
      at,
      message: "a TorchScript program (torch.jit.save), which holds code",
      fix: "give the checkpoint that it was exported from: epoch-N.pt or pretrained.pt",
    });
  const order = members.get(`${folder}byteorder`);
  let big = false;
  if (order) {
    const text = new Uint8Array(Math.min(order.size, 16));
    source.read(order.begin, text);
    big = Buffer.from(text).toString("latin1") === "big";
  }
  const storages = new Map<string, PtStorage>();
  const pickle = members.get(name) as ZipMember;
  const load = (id: PtValue): PtValue => {
    const found = storageId(id);
    if (!found) throw bad(at, "its pickle refers to something outside that is no storage of a tensor");
    const dtype = dtypeOf(found.kind);
    if (dtype === undefined) return new PyPlaceholder(found.kind, (id as PyTuple).items);
    const known = storages.get(`${dtype} ${found.key}`);
    if (known) return known;
    const member = members.get(`${folder}data/${found.key}`);
    const bytes = found.size * (elementBytes(dtype) as number);
    if (!member) throw bad(at, `the elements of a tensor are missing: there is no member ${folder}data/${found.key}`);
    if (member.size < bytes) throw bad(at, `its member ${member.name} has ${member.size} bytes, but its tensor needs ${bytes}`);
    const read = checkedReader(source, member);
    const storage = new PtStorage({
      dtype,
      size: found.size,
      location: found.location,
      at,
      read(begin, into) {
        read(begin, into);
        if (big) swap(into, swapBytes(dtype));
      },
    });
    storages.set(`${dtype} ${found.key}`, storage);
    return storage;
  };
  const value = unpickle(new Cursor(source, pickle.begin, pickle.begin + pickle.size), { at, persistentLoad: load });
  return { form: "zip", value, pickleBytes: pickle.size };
}

const legacyMagic = 0x1950a86a20f9469cfc6cn;
const legacyVersion = 1001n;

const magicBytes = Buffer.from("6cfc9c46f9206aa85019", "hex");

/** True where the bytes begin like the legacy form: the pickle of the magic number, of any protocol. */
function isLegacy(first: Uint8Array): boolean {
  const begin = Buffer.from(first.subarray(0, 40));
  return begin.toString("latin1").startsWith(`L${legacyMagic}L\n`) || (begin[0] === 0x80 && begin.includes(magicBytes));
}

function readLegacyForm(source: RangeSource): Omit<PtFile, "at" | "size" | "close"> {
  const { at } = source;
  const cursor = new Cursor(source);
  const plain = (): PtValue =>
    unpickle(cursor, {
      at,
      persistentLoad() {
        throw bad(at, "its header refers to something outside");
      },
    });
  if (plain() !== legacyMagic) throw bad(at, "its magic number is wrong: no file of torch.save");
  const version = plain();
  if (version !== legacyVersion) throw new FormatError("PT_UNSUPPORTED", { at, message: `protocol ${String(version)} of torch.save's older form, expected ${legacyVersion}` });
  const system = plain();
  const big = system instanceof Map && system.get("little_endian") === false;
  const begin = cursor.position;

  /** Where the elements of each storage are, which is known only behind the pickle. */
  const places = new Map<string, { begin: number; bytes: number }>();
  const roots = new Map<string, { dtype: string; size: number }>();
  const storages = new Map<string, PtStorage>();
  const value = unpickle(cursor, {
    at,
    persistentLoad(id) {
      // A module with its source text: the class is enough.
      if (id instanceof PyTuple && id.items[0] === "module") return id.items[1] ?? null;
      const found = storageId(id);
      if (!found) throw bad(at, "its pickle refers to something outside that is no storage of a tensor");
      const dtype = dtypeOf(found.kind);
      if (dtype === undefined) return new PyPlaceholder(found.kind, (id as PyTuple).items);
      const { key } = found;
      const width = elementBytes(dtype) as number;
      const root = roots.get(key);
      if (root && (root.dtype !== dtype || root.size !== found.size)) throw bad(at, `its storage ${key} has two types or sizes`);
      roots.set(key, { dtype, size: found.size });
      let offset = 0;
      let size = found.size;
      if (found.view !== null) {
        const [, viewOffset, viewSize] = found.view instanceof PyTuple ? found.view.items : [];
        if (typeof viewOffset !== "bigint" || typeof viewSize !== "bigint" || viewOffset < 0n || viewSize < 0n || viewOffset + viewSize > BigInt(found.size))
          throw bad(at, `a view of its storage ${key} lies outside of it`);
        offset = Number(viewOffset);
        size = Number(viewSize);
      }
      const name = `${key} ${offset} ${size}`;
      const known = storages.get(name);
      if (known) return known;
      const storage = new PtStorage({
        dtype,
        size,
        location: found.location,
        at,
        read(from, into) {
          const place = places.get(key);
          if (!place) throw bad(at, `the elements of its storage ${key} are missing`);
          source.read(place.begin + offset * width + from, into);
          if (big) swap(into, swapBytes(dtype));
        },
      });
      storages.set(name, storage);
      return storage;
    },
  });
  const pickleBytes = cursor.position - begin;
  const keys = plain();
  if (!Array.isArray(keys)) throw bad(at, "the list of its storages is no list");
  for (const key of keys) {
    const root = typeof key === "string" ? roots.get(key) : undefined;
    if (!root) throw bad(at, "the list of its storages names one that nothing uses");
    if (places.has(key as string)) throw bad(at, `the list of its storages names ${key as string} twice`);
    const bytes = root.size * (elementBytes(root.dtype) as number);
    const size = cursor.uint64();
    if (size !== BigInt(root.size)) throw bad(at, `its storage ${key as string} has ${size} elements, but its tensor says ${root.size}`);
    if (bytes > cursor.remaining)
      throw new FormatError("PT_TRUNCATED", {
        at,
        message: `the elements of its storage ${key as string} need ${bytes} bytes, but ${cursor.remaining} are left`,
        fix: "copy or write the file again",
      });
    places.set(key as string, { begin: cursor.position, bytes });
    cursor.skip(bytes);
  }
  for (const key of roots.keys()) if (!places.has(key)) throw bad(at, `the elements of its storage ${key} are missing`);
  return { form: "legacy", value, pickleBytes };
}

function open(source: RangeSource): PtFile {
  try {
    const first = new Uint8Array(Math.min(512, source.size));
    source.read(0, first);
    let read: Omit<PtFile, "at" | "size" | "close">;
    if (isZip(first)) read = readZipForm(source);
    else if (isLegacy(first)) read = readLegacyForm(source);
    else if (Buffer.from(first.subarray(257, 262)).toString("latin1") === "ustar")
      throw new FormatError("PT_UNSUPPORTED", { at: source.at, message: "a tar archive, as torch.save wrote before torch 0.1.10", fix: "load it in Python and save it again" });
    else throw bad(source.at, source.size === 0 ? "an empty file" : "it begins neither like a zip archive nor like the older form of torch.save");
    return { at: source.at, size: source.size, ...read, close: () => source.close() };
  } catch (error) {
    source.close();
    throw error;
  }
}

/**
 * Opens a file; the caller closes it. Elements of tensors are read from it by range.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, PT_BAD, PT_TRUNCATED, PT_TOO_LARGE, PT_UNSUPPORTED
 */
export const openPt = (path: string): PtFile => open(fileSource(path));

/** The same for bytes in memory. @param at the name that errors give */
export const parsePt = (bytes: Uint8Array, at = "pt data"): PtFile => open(memorySource(bytes, at));

/** True where a file begins as torch.save writes it; false where it cannot be read. */
export function looksLikePt(path: string): boolean {
  let source: RangeSource | undefined;
  try {
    source = fileSource(path);
    const first = new Uint8Array(Math.min(40, source.size));
    source.read(0, first);
    return isZip(first) || isLegacy(first);
  } catch {
    return false;
  } finally {
    source?.close();
  }
}
