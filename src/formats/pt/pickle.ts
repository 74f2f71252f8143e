/**
 * Reads a pickle of protocols 0 to 5 without running anything: calls become values by an allow-list (globals.ts) or inert placeholders.
 * Source: the opcodes of CPython's Lib/pickletools.py.
 */
import { FormatError } from "../../util/errors.ts";
import { buildValue, callGlobal, globalValue } from "./globals.ts";
import type { Cursor } from "./source.ts";
import { FrozenSet, type PtValue, PyGlobal, PyPlaceholder, PyTuple } from "./values.ts";

/** The most that one pickle may make: values and memo entries, containers, bytes of text. Real checkpoints are a hundred times smaller. */
const limits = { values: 16_000_000, containers: 4_000_000, bytes: 256 << 20, integerBytes: 1024, copied: 1_000_000 };

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** UTF-8 in which lone surrogates have three bytes each, as Python writes them; undefined for other bytes. */
function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    let text = "";
    let done = 0;
    const take = (end: number): void => {
      text += utf8.decode(bytes.subarray(done, end));
    };
    try {
      for (let at = 0; at + 2 < bytes.length; at++) {
        const [lead, middle, last] = bytes.subarray(at, at + 3) as unknown as [number, number, number];
        if (lead !== 0xed || middle < 0xa0 || middle > 0xbf || last < 0x80 || last > 0xbf) continue;
        take(at);
        text += String.fromCharCode(0xd000 | ((middle & 0x3f) << 6) | (last & 0x3f));
        done = at + 3;
        at += 2;
      }
      take(bytes.length);
      return text;
    } catch {
      return undefined;
    }
  }
}

/** A two's complement integer, little endian. */
function signedInteger(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n;
  const value = BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);
  return BigInt.asIntN(8 * bytes.length, value);
}

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f", v: "\v", a: "\x07", "\\": "\\", "'": "'", '"': '"', "\n": "" };
const unescapeLiteral = (text: string): string =>
  text.replace(/\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|([\s\S]))/g, (whole, hex, octal, one) =>
    hex !== undefined ? String.fromCharCode(Number.parseInt(hex, 16)) : octal !== undefined ? String.fromCharCode(Number.parseInt(octal, 8) & 255) : (escapes[one] ?? whole),
  );
/** Python's raw-unicode-escape, as protocol 0 writes str. */
const rawUnescape = (bytes: Uint8Array): string =>
  Buffer.from(bytes)
    .toString("latin1")
    .replace(/\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})/g, (whole, short, long) => {
      const code = Number.parseInt(short ?? long, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    });

/** How much a copy of a value would copy. */
function lengthOf(value: PtValue): number {
  if (typeof value === "string" || value instanceof Uint8Array || Array.isArray(value)) return value.length;
  if (value instanceof Map || value instanceof Set) return value.size;
  return value instanceof PyTuple ? value.items.length : 0;
}

export interface UnpickleOptions {
  /** The name that errors give. */
  at: string;
  /** What a persistent id stands for: the storages of tensors. */
  persistentLoad(id: PtValue): PtValue;
}

class Unpickler {
  private readonly cursor: Cursor;
  private readonly options: UnpickleOptions;
  private readonly stack: PtValue[] = [];
  /** Heights of the stack at the open marks. */
  private readonly marks: number[] = [];
  private readonly memo = new Map<number, PtValue>();
  private values = 0;
  private containers = 0;
  private textBytes = 0;
  private copied = 0;
  private readonly start: number;

  constructor(cursor: Cursor, options: UnpickleOptions) {
    this.cursor = cursor;
    this.start = cursor.position;
    this.options = options;
  }

  private bad(message: string): FormatError {
    return new FormatError("PT_BAD", { at: this.options.at, message: `its pickle is damaged at byte ${this.cursor.position}: ${message}` });
  }

  private tooLarge(what: string): FormatError {
    return new FormatError("PT_TOO_LARGE", { at: this.options.at, message: `its pickle has ${what}` });
  }

  private count(): void {
    if (++this.values > limits.values) throw this.tooLarge(`more than ${limits.values} values`);
  }

  private push(value: PtValue): void {
    this.count();
    this.stack.push(value);
  }

  private pushContainer(value: PtValue): void {
    if (++this.containers > limits.containers) throw this.tooLarge(`more than ${limits.containers} containers`);
    this.push(value);
  }

  private pop(): PtValue {
    if (this.stack.length <= (this.marks.at(-1) ?? 0)) throw this.bad("an operation without its operand");
    return this.stack.pop() as PtValue;
  }

  private top(): PtValue {
    if (this.stack.length <= (this.marks.at(-1) ?? 0)) throw this.bad("an operation without its operand");
    return this.stack[this.stack.length - 1] as PtValue;
  }

  private popToMark(): PtValue[] {
    const mark = this.marks.pop();
    if (mark === undefined) throw this.bad("the end of a group that was not begun");
    return this.stack.splice(mark);
  }

  private bytes(length: number | bigint): Uint8Array {
    if (length < 0) throw this.bad(`a length of ${length}`);
    this.textBytes += Number(length);
    if (this.textBytes > limits.bytes) throw this.tooLarge(`more than ${limits.bytes} bytes of text`);
    return this.cursor.bytes(Number(length));
  }

  private text(length: number | bigint): string {
    const text = decodeText(this.bytes(length));
    if (text === undefined) throw this.bad("text that is not UTF-8");
    return text;
  }

  private line(): Uint8Array {
    const line = this.cursor.line();
    this.textBytes += line.length;
    if (this.textBytes > limits.bytes) throw this.tooLarge(`more than ${limits.bytes} bytes of text`);
    return line;
  }

  private lineText(): string {
    return Buffer.from(this.line()).toString("utf8");
  }

  private integerLine(): bigint {
    const text = this.lineText().trim().replace(/L$/, "");
    if (!/^[-+]?\d{1,2400}$/.test(text)) throw this.bad("an integer that is none");
    return text.startsWith("+") ? BigInt(text.slice(1)) : BigInt(text);
  }

  private index(text: string): number {
    if (!/^\d{1,10}$/.test(text)) throw this.bad("a memo index that is no number");
    return Number(text);
  }

  private long(length: number): bigint {
    if (length < 0 || length > limits.integerBytes) throw this.tooLarge(`an integer of ${length} bytes`);
    return signedInteger(this.cursor.bytes(length));
  }

  private put(index: number): void {
    this.count();
    this.memo.set(index, this.top());
  }

  private get(index: number): void {
    const value = this.memo.get(index);
    if (value === undefined) throw this.bad(`a reference to value ${index}, which is not there`);
    this.push(value);
  }

  private tuple(length: number): void {
    const items: PtValue[] = [];
    for (let i = 0; i < length; i++) items.unshift(this.pop());
    this.pushContainer(new PyTuple(items));
  }

  private append(target: PtValue, items: readonly PtValue[]): void {
    const list = Array.isArray(target) ? target : target instanceof PyPlaceholder ? target.items : undefined;
    if (!list) throw this.bad("items for something that is no list");
    for (const item of items) list.push(item);
  }

  private setItems(target: PtValue, items: readonly PtValue[]): void {
    const map = target instanceof Map ? target : target instanceof PyPlaceholder ? target.entries : undefined;
    if (!map) throw this.bad("keys for something that is no dict");
    if (items.length % 2 !== 0) throw this.bad("a key without a value");
    for (let i = 0; i < items.length; i += 2) map.set(items[i] as PtValue, items[i + 1] as PtValue);
  }

  /** Counts what a call may copy: a reference of two bytes can stand for a long list, and again and again. */
  private charge(args: readonly PtValue[]): void {
    for (const arg of args) this.copied += 1 + lengthOf(arg);
    if (this.copied > limits.copied + 16 * (this.cursor.position - this.start)) throw this.tooLarge("calls that repeat the same long values");
  }

  private call(callee: PtValue, args: readonly PtValue[]): void {
    this.charge(args);
    this.pushContainer(callGlobal(callee, args));
  }

  private popArguments(): readonly PtValue[] {
    const args = this.pop();
    if (!(args instanceof PyTuple)) throw this.bad("a call whose arguments are no tuple");
    return args.items;
  }

  private build(): void {
    const state = this.pop();
    const target = this.top();
    this.charge([state, ...(state instanceof PyTuple ? state.items.slice(0, 2) : [])]);
    if (!buildValue(target, state)) throw this.bad("state for something that has none");
  }

  /** Runs one operation. @returns true at the end */
  private step(): boolean {
    const { cursor } = this;
    const code = cursor.uint8();
    switch (code) {
      case 0x80: {
        const protocol = cursor.uint8();
        if (protocol > 5) throw new FormatError("PT_UNSUPPORTED", { at: this.options.at, message: `a pickle of protocol ${protocol}, expected at most 5` });
        return false;
      }
      case 0x2e: // STOP
        return true;
      case 0x95: // FRAME
        cursor.bytes(8);
        return false;
      case 0x28: // MARK
        this.count();
        this.marks.push(this.stack.length);
        return false;
      case 0x30: // POP: a mark on top is what it takes
        if (this.marks.length > 0 && this.marks.at(-1) === this.stack.length) this.marks.pop();
        else this.pop();
        return false;
      case 0x31: // POP_MARK
        this.popToMark();
        return false;
      case 0x32: // DUP
        this.push(this.top());
        return false;

      case 0x4e: // NONE
        this.push(null);
        return false;
      case 0x88: // NEWTRUE
        this.push(true);
        return false;
      case 0x89: // NEWFALSE
        this.push(false);
        return false;
      case 0x4a: // BININT
        this.push(BigInt(cursor.int32()));
        return false;
      case 0x4b: // BININT1
        this.push(BigInt(cursor.uint8()));
        return false;
      case 0x4d: // BININT2
        this.push(BigInt(cursor.uint16()));
        return false;
      case 0x8a: // LONG1
        this.push(this.long(cursor.uint8()));
        return false;
      case 0x8b: // LONG4
        this.push(this.long(cursor.int32()));
        return false;
      case 0x49: {
        // INT: protocol 0 writes booleans as 00 and 01
        const text = this.lineText();
        if (text === "00" || text === "01") this.push(text === "01");
        else if (/^[-+]?\d{1,2400}$/.test(text.trim())) this.push(BigInt(text.trim().replace(/^\+/, "")));
        else throw this.bad("an integer that is none");
        return false;
      }
      case 0x4c: // LONG
        this.push(this.integerLine());
        return false;
      case 0x46: {
        // FLOAT
        const text = this.lineText().trim();
        const named = /^([-+]?)(inf|nan)$/i.exec(text);
        if (!named && !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text)) throw this.bad("a float that is none");
        if (!named) this.push(Number(text));
        else if ((named[2] as string).toLowerCase() === "nan") this.push(Number.NaN);
        else this.push(named[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY);
        return false;
      }
      case 0x47: // BINFLOAT
        this.push(cursor.float64());
        return false;

      case 0x58: // BINUNICODE
        this.push(this.text(cursor.uint32()));
        return false;
      case 0x8c: // SHORT_BINUNICODE
        this.push(this.text(cursor.uint8()));
        return false;
      case 0x8d: // BINUNICODE8
        this.push(this.text(cursor.uint64()));
        return false;
      case 0x56: // UNICODE
        this.push(rawUnescape(this.line()));
        return false;
      case 0x53: {
        // STRING: a literal of Python 2
        const text = this.lineText().trim();
        const quote = text[0];
        if (text.length < 2 || (quote !== "'" && quote !== '"') || !text.endsWith(quote)) throw this.bad("a string without its quotes");
        this.push(unescapeLiteral(text.slice(1, -1)));
        return false;
      }
      case 0x54: // BINSTRING
        this.push(this.text(cursor.int32()));
        return false;
      case 0x55: // SHORT_BINSTRING
        this.push(this.text(cursor.uint8()));
        return false;
      case 0x42: // BINBYTES
        this.push(this.bytes(cursor.uint32()));
        return false;
      case 0x43: // SHORT_BINBYTES
        this.push(this.bytes(cursor.uint8()));
        return false;
      case 0x8e: // BINBYTES8
      case 0x96: // BYTEARRAY8
        this.push(this.bytes(cursor.uint64()));
        return false;

      case 0x5d: // EMPTY_LIST
        this.pushContainer([]);
        return false;
      case 0x7d: // EMPTY_DICT
        this.pushContainer(new Map());
        return false;
      case 0x8f: // EMPTY_SET
        this.pushContainer(new Set());
        return false;
      case 0x29: // EMPTY_TUPLE
        this.pushContainer(new PyTuple([]));
        return false;
      case 0x6c: // LIST
        this.pushContainer(this.popToMark());
        return false;
      case 0x64: {
        // DICT
        const map = new Map<PtValue, PtValue>();
        this.setItems(map, this.popToMark());
        this.pushContainer(map);
        return false;
      }
      case 0x74: // TUPLE
        this.pushContainer(new PyTuple(this.popToMark()));
        return false;
      case 0x85: // TUPLE1
        this.tuple(1);
        return false;
      case 0x86: // TUPLE2
        this.tuple(2);
        return false;
      case 0x87: // TUPLE3
        this.tuple(3);
        return false;
      case 0x91: // FROZENSET
        this.pushContainer(new FrozenSet(this.popToMark()));
        return false;
      case 0x61: {
        // APPEND
        const item = this.pop();
        this.append(this.top(), [item]);
        return false;
      }
      case 0x65: {
        // APPENDS
        const items = this.popToMark();
        this.append(this.top(), items);
        return false;
      }
      case 0x73: {
        // SETITEM
        const value = this.pop();
        const key = this.pop();
        this.setItems(this.top(), [key, value]);
        return false;
      }
      case 0x75: {
        // SETITEMS
        const items = this.popToMark();
        this.setItems(this.top(), items);
        return false;
      }
      case 0x90: {
        // ADDITEMS
        const items = this.popToMark();
        const target = this.top();
        if (target instanceof Set) for (const item of items) target.add(item);
        else this.append(target, items);
        return false;
      }

      case 0x71: // BINPUT
        this.put(cursor.uint8());
        return false;
      case 0x72: // LONG_BINPUT
        this.put(cursor.uint32());
        return false;
      case 0x70: // PUT
        this.put(this.index(this.lineText()));
        return false;
      case 0x94: // MEMOIZE
        this.put(this.memo.size);
        return false;
      case 0x68: // BINGET
        this.get(cursor.uint8());
        return false;
      case 0x6a: // LONG_BINGET
        this.get(cursor.uint32());
        return false;
      case 0x67: // GET
        this.get(this.index(this.lineText()));
        return false;

      case 0x63: {
        // GLOBAL
        const module = this.lineText();
        this.pushContainer(globalValue(module, this.lineText()));
        return false;
      }
      case 0x93: {
        // STACK_GLOBAL
        const name = this.pop();
        const module = this.pop();
        if (typeof name !== "string" || typeof module !== "string") throw this.bad("a class whose name is no text");
        this.pushContainer(globalValue(module, name));
        return false;
      }
      case 0x52: {
        // REDUCE
        const args = this.popArguments();
        this.call(this.pop(), args);
        return false;
      }
      case 0x81: {
        // NEWOBJ
        const args = this.popArguments();
        this.call(this.pop(), args);
        return false;
      }
      case 0x92: {
        // NEWOBJ_EX: with named arguments, which nothing known takes
        const named = this.pop();
        const args = this.popArguments();
        this.charge(args);
        this.pushContainer(new PyPlaceholder(this.pop(), [...args, named]));
        return false;
      }
      case 0x69: {
        // INST
        const module = this.lineText();
        const name = this.lineText();
        this.call(globalValue(module, name), this.popToMark());
        return false;
      }
      case 0x6f: {
        // OBJ
        const [callee, ...args] = this.popToMark();
        if (callee === undefined) throw this.bad("an object without a class");
        this.call(callee, args);
        return false;
      }
      case 0x62: // BUILD
        this.build();
        return false;
      case 0x51: // BINPERSID
        this.push(this.options.persistentLoad(this.pop()));
        return false;
      case 0x50: // PERSID
        this.push(this.options.persistentLoad(this.lineText()));
        return false;

      case 0x82: // EXT1
        this.pushContainer(new PyGlobal("copyreg", `extension ${cursor.uint8()}`));
        return false;
      case 0x83: // EXT2
        this.pushContainer(new PyGlobal("copyreg", `extension ${cursor.uint16()}`));
        return false;
      case 0x84: // EXT4
        this.pushContainer(new PyGlobal("copyreg", `extension ${cursor.int32()}`));
        return false;
      case 0x97: // NEXT_BUFFER
        throw new FormatError("PT_UNSUPPORTED", { at: this.options.at, message: "a pickle whose buffers lie outside of it" });
      case 0x98: // READONLY_BUFFER
        return false;
      default:
        throw this.bad(`the unknown operation 0x${code.toString(16).padStart(2, "0")}`);
    }
  }

  run(): PtValue {
    while (!this.step());
    const value = this.pop();
    if (this.stack.length > 0 || this.marks.length > 0) throw this.bad("values that are left over");
    return value;
  }
}

/**
 * Reads one pickle; the cursor then stands behind it.
 * @throws FormatError PT_BAD, PT_TRUNCATED, PT_TOO_LARGE, PT_UNSUPPORTED
 */
export const unpickle = (cursor: Cursor, options: UnpickleOptions): PtValue => new Unpickler(cursor, options).run();
