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
  const along = coefficients[lastOf(shape)] as number;
  eachRow(shape, coefficients, (start, length, strides, factors) => {
    let prediction = 0;
    for (let i = start; i < start + length; i++) {
      const code = reader.next();
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

/** Collects integers and codes them when all are there. */
class IntWriter {
  private readonly values: number[] = [];

  /** @param value a signed integer of 32 bits */
  write(value: number): void {
    this.values.push(value >= 0 ? 2 * value : -2 * value - 1);
  }

  /** The codes, behind `head`. */
  finish(head: readonly number[]): Uint8Array {
    const { values } = this;
    // As few bits as hold each value while neighbours differ by one at most.
    const bits = Uint8Array.from(values, (value) => (value === 0 ? 0 : 32 - Math.clz32(value)));
    for (let i = 1; i < bits.length; i++) bits[i] = Math.max(bits[i] as number, (bits[i - 1] as number) - 1);
    for (let i = bits.length - 2; i >= 0; i--) bits[i] = Math.max(bits[i] as number, (bits[i + 1] as number) - 1);
    let bytes = new Uint8Array(head.length + 16 + values.length * 2);
    bytes.set(head);
    let position = head.length;
    let held = 0;
    let heldBits = 0;
    const put = (count: number, value: number): void => {
      if (count > 16) {
        put(16, value % 65536);
        put(count - 16, Math.floor(value / 65536));
        return;
      }
      held |= value << heldBits;
      heldBits += count;
      while (heldBits >= 8) {
        if (position === bytes.length) {
          const larger = new Uint8Array(bytes.length * 2);
          larger.set(bytes);
          bytes = larger;
        }
        bytes[position++] = held & 0xff;
        held >>>= 8;
        heldBits -= 8;
      }
    };
    let zeros = 0;
    const endZeros = (): void => {
      if (zeros === 0) return;
      const width = 31 - Math.clz32(zeros);
      put(width, 0);
      put(1, 1);
      put(width, zeros - 2 ** width);
      zeros = 0;
    };
    const first = bits[0] as number;
    put(5, Math.min(first, 31));
    if (first >= 31) put(1, first - 31);
    let before = first;
    for (let i = 0; i < values.length; i++) {
      const own = bits[i] as number;
      const next = bits[i + 1] ?? own;
      if (own === 0) zeros++;
      else {
        endZeros();
        if (next > own) put(2, 3);
        else if (next < own) put(2, 1);
        else put(1, 0);
        if (before <= own && next <= own) put(own - 1, (values[i] as number) - 2 ** (own - 1));
        else put(own, values[i] as number);
      }
      before = own;
    }
    endZeros();
    if (heldBits > 0) put(8 - heldBits, 0);
    return bytes.slice(0, position);
  }
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
  const strange = data.findIndex((value) => !Number.isFinite(value));
  if (strange >= 0) refuse(`element ${strange} is ${data[strange]}`);
  const integers = regression ? regress({ shape, data }) : shape.map(() => 0);
  const coefficients = integers.map((integer) => integer / 256);
  const writer = new IntWriter();
  writer.write(shape.length);
  writer.write(tickPower);
  shape.forEach((length, axis) => {
    writer.write(length);
    writer.write(integers[axis] as number);
  });
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
      writer.write(code === 0 ? 0 : code);
      const value = fround(predicted + fround(fround(code) * tick));
      compressed[i] = value;
      prediction = fround(value * along);
    }
  });
  return writer.finish([0x4c, 0]);
}
