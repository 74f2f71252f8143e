/**
 * Lilcom: float arrays as whole multiples of a tick, predicted from their neighbours along every axis. lhotse keeps features in it.
 * Layout: "L", a byte 0, then one stream of signed integers: number of axes, power of the tick, for each axis its size and its coefficient
 * (in 1/256), then a code an element. All arithmetic is in float32, so that both sides predict the same.
 * Source: the format of lilcom 1.1 to 1.8 (github.com/danpovey/lilcom).
 */
import { FormatError } from "../util/errors.ts";

/** An array of floats, row-major. */
export interface FloatArray {
  shape: number[];
  data: Float32Array;
}

export interface LilcomOptions {
  /** The tick is 2^tickPower; the error of an element is at most half of it. lhotse keeps features with -5. */
  tickPower?: number;
  /** False predicts nothing, as for data without neighbours. */
  regression?: boolean;
}

const maxAxes = 16;
const { fround } = Math;

function damaged(at: string, message: string): FormatError {
  return new FormatError("LILCOM_BAD", { at, message, fix: "copy the file again, or compute the features again" });
}

/**
 * Reads integers of which neighbours are of like size. Each is coded by its bits; whether the next has one bit more, one less or as many stands
 * before it. The top bit is left out where it must be 1; zeros in a row are counted.
 */
class IntReader {
  private readonly bytes: Uint8Array;
  private readonly at: string;
  /** Of the next byte to take. */
  position: number;
  private held = 0;
  private heldBits = 0;
  private before: number;
  private bits: number;
  private zeros = -1;

  constructor(bytes: Uint8Array, position: number, at: string) {
    this.bytes = bytes;
    this.position = position;
    this.at = at;
    this.bits = this.take(5);
    if (this.bits === 31) this.bits += this.take(1);
    this.before = this.bits;
  }

  /** @param count 0 to 32 @returns that many bits, the first one lowest */
  private take(count: number): number {
    if (count > 16) return this.take(16) + this.take(count - 16) * 65536;
    while (this.heldBits < count) {
      if (this.position >= this.bytes.length) throw damaged(this.at, "the lilcom data ends early");
      this.held |= (this.bytes[this.position++] as number) << this.heldBits;
      this.heldBits += 8;
    }
    const value = this.held & ((1 << count) - 1);
    this.held >>>= count;
    this.heldBits -= count;
    return value;
  }

  /** How many bits the integer behind the next one has. */
  private following(): number {
    const { bits } = this;
    if (bits > 0) {
      if (this.take(1) === 0) return bits;
      const next = this.take(1) === 1 ? bits + 1 : bits - 1;
      if (next > 32) throw damaged(this.at, "a lilcom code of more than 32 bits");
      return next;
    }
    if (this.zeros < 0) {
      let width = 0;
      while (this.take(1) === 0) if (++width > 31) throw damaged(this.at, "a run of zeros of more than 32 bits");
      // The first zero is the one at hand, the second is what `following` tells of.
      this.zeros = 2 ** width + this.take(width) - 1;
    }
    this.zeros--;
    return this.zeros < 0 ? 1 : 0;
  }

  /** @returns a signed integer of 32 bits */
  next(): number {
    const { before, bits } = this;
    const next = this.following();
    const redundant = bits > 0 && before <= bits && next <= bits;
    const value = redundant ? this.take(bits - 1) + 2 ** (bits - 1) : this.take(bits);
    this.before = bits;
    this.bits = next;
    return value % 2 === 0 ? value / 2 : -(value - 1) / 2 - 1;
  }

  /** Fills `codes` as so many calls of `next`, with the state in local variables: most of the time of reading is spent here. */
  fill(codes: Int32Array): void {
    const { bytes } = this;
    const end = bytes.length;
    let { position, held, heldBits, before, bits } = this;
    let i = 0;
    while (i < codes.length) {
      // Zeros in a row, wide codes and the last bytes go the slow way.
      if (bits === 0 || bits > 14 || position + 4 > end) {
        Object.assign(this, { position, held, heldBits, before, bits });
        codes[i++] = this.next();
        ({ position, held, heldBits, before, bits } = this);
        continue;
      }
      // Up to 2 bits for the next width, and up to 14 for the value.
      while (heldBits < 16) {
        held |= (bytes[position++] as number) << heldBits;
        heldBits += 8;
      }
      let next = bits;
      if ((held & 1) === 0) {
        held >>>= 1;
        heldBits--;
      } else {
        next += held & 2 ? 1 : -1;
        held >>>= 2;
        heldBits -= 2;
      }
      const width = before <= bits && next <= bits ? bits - 1 : bits;
      let value = held & ((1 << width) - 1);
      held >>>= width;
      heldBits -= width;
      if (width < bits) value |= 1 << width;
      codes[i++] = value & 1 ? -((value - 1) >> 1) - 1 : value >> 1;
      before = bits;
      bits = next;
    }
    Object.assign(this, { position, held, heldBits, before, bits });
  }
}

interface Header {
  shape: number[];
  tick: number;
  coefficients: number[];
}

function readHeader(reader: IntReader, at: string): Header {
  const axes = reader.next();
  if (axes < 1 || axes > maxAxes) throw damaged(at, `${axes} axes, expected 1 to ${maxAxes}`);
  const tickPower = reader.next();
  if (tickPower < -20 || tickPower > 20) throw damaged(at, `a tick of 2^${tickPower}, expected a power from -20 to 20`);
  const shape: number[] = [];
  const coefficients: number[] = [];
  for (let axis = 0; axis < axes; axis++) {
    const size = reader.next();
    const coefficient = reader.next();
    if (size < 1) throw damaged(at, `axis ${axis} has the size ${size}`);
    if (coefficient < -256 || coefficient > 256) throw damaged(at, `axis ${axis} has the coefficient ${coefficient}, expected -256 to 256`);
    shape.push(size);
    coefficients.push(coefficient / 256);
  }
  return { shape, tick: 2 ** tickPower, coefficients };
}

function open(bytes: Uint8Array, at: string): IntReader {
  if (bytes[0] !== 0x4c) throw damaged(at, bytes.length === 0 ? "no data" : `not lilcom data: it begins with ${[...bytes.subarray(0, 4)].join(" ")}, expected 76 (the letter L)`);
  if (bytes[1] !== 0) throw damaged(at, `version ${bytes[1]} of lilcom, expected 0`);
  return new IntReader(bytes, 2, at);
}

/** Elements between neighbours along each axis. */
function stridesOf(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--) strides[axis] = (strides[axis + 1] as number) * (shape[axis + 1] as number);
  return strides;
}

/** The last axis of more than one element: those behind it change nothing, and rows along it are longer. */
const lastOf = (shape: readonly number[]): number => {
  let last = shape.length - 1;
  while (last > 0 && shape[last] === 1) last--;
  return last;
};

/**
 * Visits the rows along the last axis that has more than one element, in order.
 * @param row called with the row's first element, its elements, and the neighbours before it along the other axes
 */
function eachRow(
  shape: readonly number[],
  coefficients: readonly number[],
  row: (start: number, length: number, strides: readonly number[], factors: readonly number[]) => void,
): void {
  const strides = stridesOf(shape);
  const last = lastOf(shape);
  const length = shape[last] as number;
  const rows = shape.slice(0, last).reduce((a, b) => a * b, 1);
  const index = new Array<number>(last).fill(0);
  for (let i = 0; i < rows; i++) {
    const axes = index.flatMap((at, axis) => (at > 0 && coefficients[axis] !== 0 ? [axis] : []));
    row(
      i * length,
      length,
      axes.map((axis) => strides[axis] as number),
      axes.map((axis) => coefficients[axis] as number),
    );
    for (let axis = last - 1; axis >= 0; axis--) {
      index[axis] = (index[axis] as number) + 1;
      if ((index[axis] as number) < (shape[axis] as number)) break;
      index[axis] = 0;
    }
  }
}

/**
 * The shape that `decompressLilcom` would give.
 * @throws FormatError LILCOM_BAD
 */
export function lilcomShape(bytes: Uint8Array, at = "lilcom data"): number[] {
  return readHeader(open(bytes, at), at).shape;
}

/**
 * Decompresses an array.
 * @param at where the bytes come from, for messages
 * @throws FormatError LILCOM_BAD for what is no lilcom data, is damaged, cut off, or followed by more
 */
export function decompressLilcom(bytes: Uint8Array, at = "lilcom data"): FloatArray {
  const reader = open(bytes, at);
  const { shape, tick, coefficients } = readHeader(reader, at);
  const size = shape.reduce((a, b) => a * b, 1);
  // Zeros in a row take few bits, so that few bytes may well be many elements; but not any number of them.
  if (size > 2 ** 22 && size > bytes.length * 4096) throw damaged(at, `an array of ${size} elements in ${bytes.length} bytes`);
  const data = new Float32Array(size);
  const codes = new Int32Array(size);
  reader.fill(codes);
  const along = coefficients[lastOf(shape)] as number;
  eachRow(shape, coefficients, (start, length, strides, factors) => {
    let prediction = 0;
    for (let i = start; i < start + length; i++) {
      const code = codes[i] as number;
      let predicted = prediction;
      for (let k = 0; k < strides.length; k++) predicted = fround(predicted + fround((data[i - (strides[k] as number)] as number) * (factors[k] as number)));
      const value = fround(predicted + fround(fround(code) * tick));
      data[i] = value;
      prediction = fround(value * along);
    }
  });
  if (reader.position !== bytes.length) throw damaged(at, `${bytes.length - reader.position} bytes follow the lilcom data`);
  return { shape, data };
}

/** Packs bits, the first one lowest. */
class BitWriter {
  readonly bytes: Uint8Array;
  position: number;
  held = 0;
  heldBits = 0;

  constructor(size: number, head: readonly number[]) {
    this.bytes = new Uint8Array(size + head.length);
    this.bytes.set(head);
    this.position = head.length;
  }

  /** @param count 0 to 32 @param value below 2^count */
  put(count: number, value: number): void {
    if (count > 16) {
      this.put(16, value % 65536);
      this.put(count - 16, Math.floor(value / 65536));
      return;
    }
    this.held |= value << this.heldBits;
    this.heldBits += count;
    while (this.heldBits >= 8) {
      this.bytes[this.position++] = this.held & 0xff;
      this.held >>>= 8;
      this.heldBits -= 8;
    }
  }
}

/** Codes integers of 32 bits, of which neighbours are of like size, behind `head`: what IntReader reads. */
function codeIntegers(integers: ArrayLike<number>, head: readonly number[]): Uint8Array {
  const count = integers.length;
  const values = new Uint32Array(count);
  // As few bits as hold each value while neighbours differ by one at most.
  const bits = new Uint8Array(count);
  let least = 0;
  for (let i = 0; i < count; i++) {
    const integer = integers[i] as number;
    values[i] = integer >= 0 ? 2 * integer : -2 * integer - 1;
    least = Math.max(32 - Math.clz32(values[i] as number), least - 1);
    bits[i] = least;
  }
  for (let i = count - 2; i >= 0; i--) if ((bits[i] as number) < (bits[i + 1] as number) - 1) bits[i] = (bits[i + 1] as number) - 1;
  const writer = new BitWriter(16 + count * 5, head); // at most 34 bits a value
  const { bytes } = writer;
  const first = bits[0] as number;
  writer.put(5, Math.min(first, 31));
  if (first >= 31) writer.put(1, first - 31);
  let zeros = 0;
  const endZeros = (): void => {
    const width = 31 - Math.clz32(zeros);
    writer.put(width, 0);
    writer.put(1, 1);
    writer.put(width, zeros - 2 ** width);
    zeros = 0;
  };
  let before = first;
  let { position, held, heldBits } = writer;
  for (let i = 0; i < count; i++) {
    const own = bits[i] as number;
    const next = i + 1 < count ? (bits[i + 1] as number) : own;
    // One bit for as many bits again, two for one more or one less; then the value, without its top bit where that must be 1.
    const flagBits = next === own ? 1 : 2;
    const flags = next === own ? 0 : next > own ? 3 : 1;
    const width = before <= own && next <= own ? own - 1 : own;
    if (own === 0) zeros++;
    else if (own > 14 || zeros > 0) {
      Object.assign(writer, { position, held, heldBits });
      if (zeros > 0) endZeros();
      writer.put(flagBits, flags);
      writer.put(width, width < own ? (values[i] as number) - 2 ** width : (values[i] as number));
      ({ position, held, heldBits } = writer);
    } else {
      const value = width < own ? (values[i] as number) ^ (1 << width) : (values[i] as number);
      held |= (flags | (value << flagBits)) << heldBits;
      heldBits += flagBits + width;
      while (heldBits >= 8) {
        bytes[position++] = held & 0xff;
        held >>>= 8;
        heldBits -= 8;
      }
    }
    before = own;
  }
  Object.assign(writer, { position, held, heldBits });
  if (zeros > 0) endZeros();
  if (writer.heldBits > 0) writer.put(8 - writer.heldBits, 0);
  return bytes.slice(0, writer.position);
}

/** Coefficients in 1/256 that predict each element from the ones before it, axis by axis; those below 0.02 are left out. */
function regress({ shape, data }: FloatArray): number[] {
  const rest = Float64Array.from(data);
  const strides = stridesOf(shape);
  return shape.map((size, axis) => {
    if (size === 1) return 0;
    const stride = strides[axis] as number;
    // Elements that have a neighbour behind them along this axis lie in blocks.
    const block = (size - 1) * stride;
    let products = 0;
    let squares = 1e-20;
    for (let base = 0; base < rest.length; base += size * stride)
      for (let i = base; i < base + block; i++) {
        products += (rest[i] as number) * (rest[i + stride] as number);
        squares += (rest[i] as number) ** 2;
      }
    const coefficient = Math.min(1, Math.max(-1, products / squares));
    if (!(Math.abs(coefficient) >= 0.02)) return 0;
    for (let base = 0; base < rest.length; base += size * stride)
      for (let i = base + block - 1; i >= base; i--) rest[i + stride] = (rest[i + stride] as number) - (rest[i] as number) * coefficient;
    return Math.round(coefficient * 256);
  });
}

/**
 * Compresses an array, with a loss of at most half a tick an element.
 * @throws FormatError LILCOM_BAD for shapes without elements, of more than 15 axes, for ticks outside of 2^-20 to 2^20, and for values that are not finite
 */
export function compressLilcom({ shape, data }: FloatArray, { tickPower = -5, regression = true }: LilcomOptions = {}): Uint8Array {
  const refuse = (message: string): never => {
    throw new FormatError("LILCOM_BAD", { at: "data to compress", message });
  };
  const size = shape.reduce((a, b) => a * b, 1);
  if (shape.length < 1 || shape.length >= maxAxes || size < 1 || size !== data.length) refuse(`the shape (${shape.join(", ")}) for ${data.length} elements`);
  if (!Number.isInteger(tickPower) || tickPower < -20 || tickPower > 20) refuse(`a tick of 2^${tickPower}, expected a whole power from -20 to 20`);
  let strange = 0;
  while (strange < size && Number.isFinite(data[strange])) strange++;
  if (strange < size) refuse(`element ${strange} is ${data[strange]}`);
  const integers = regression ? regress({ shape, data }) : shape.map(() => 0);
  const coefficients = integers.map((integer) => integer / 256);
  const codes = new Int32Array(2 + 2 * shape.length + size);
  codes.set([shape.length, tickPower, ...shape.flatMap((length, axis) => [length, integers[axis] as number])]);
  let place = codes.length - size;
  const tick = 2 ** tickPower;
  const along = coefficients[lastOf(shape)] as number;
  const compressed = new Float32Array(data);
  eachRow(shape, coefficients, (start, length, strides, factors) => {
    let prediction = 0;
    for (let i = start; i < start + length; i++) {
      let predicted = prediction;
      for (let k = 0; k < strides.length; k++) predicted = fround(predicted + fround((compressed[i - (strides[k] as number)] as number) * (factors[k] as number)));
      const ticks = fround(fround((compressed[i] as number) - predicted) / tick);
      const code = Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, ticks < 0 ? -Math.round(-ticks) : Math.round(ticks)));
      codes[place++] = code;
      const value = fround(predicted + fround(fround(code) * tick));
      compressed[i] = value;
      prediction = fround(value * along);
    }
  });
  return codeIntegers(codes, [0x4c, 0]);
}
