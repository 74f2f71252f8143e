/**
 * Event files that TensorBoard shows, with scalars only: records of a length, its checksum, a message and its checksum.
 * Source: TensorFlow's record_writer and event.proto, as torch.utils.tensorboard writes them.
 */
import { closeSync, openSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { appendWhole, fileError, makeFolder, writeFully } from "./atomic.ts";
import { crc32c } from "./crc32.ts";

const varint = 0;
const fixed64 = 1;
const bytes = 2;
const fixed32 = 5;

/** Builds a protobuf message field by field. */
class Message {
  private readonly parts: Uint8Array[] = [];

  private integer(value: bigint): this {
    const digits: number[] = [];
    let rest = BigInt.asUintN(64, value);
    do {
      digits.push(Number(rest & 127n) | (rest > 127n ? 128 : 0));
      rest >>= 7n;
    } while (rest > 0n);
    this.parts.push(Uint8Array.from(digits));
    return this;
  }

  private key(field: number, kind: number): this {
    return this.integer(BigInt(field * 8 + kind));
  }

  /** Zero is what stands nowhere. */
  int64(field: number, value: number): this {
    return value === 0 ? this : this.key(field, varint).integer(BigInt(value));
  }

  double(field: number, value: number): this {
    const part = Buffer.alloc(8);
    part.writeDoubleLE(value);
    this.key(field, fixed64).parts.push(part);
    return this;
  }

  float(field: number, value: number): this {
    const part = Buffer.alloc(4);
    part.writeFloatLE(value);
    this.key(field, fixed32).parts.push(part);
    return this;
  }

  data(field: number, value: Uint8Array): this {
    this.key(field, bytes).integer(BigInt(value.byteLength)).parts.push(value);
    return this;
  }

  text(field: number, value: string): this {
    return this.data(field, Buffer.from(value, "utf8"));
  }

  finish(): Uint8Array {
    return Buffer.concat(this.parts);
  }
}

/** A checksum that a record may hold of data with checksums in it. */
function masked(part: Uint8Array): Uint8Array {
  const crc = crc32c(part);
  const result = Buffer.alloc(4);
  result.writeUInt32LE((((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0);
  return result;
}

/** @returns a message as it stands in an event file */
export function tfRecord(message: Uint8Array): Uint8Array {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(message.byteLength));
  return Buffer.concat([length, masked(length), message, masked(message)]);
}

/** @returns the first event of a file. @param time seconds since 1970 */
export const versionEvent = (time: number): Uint8Array => new Message().double(1, time).text(3, "brain.Event:2").finish();

/** @returns an event of one scalar at a step. @param time seconds since 1970 */
export function scalarEvent(tag: string, value: number, { step, time }: { step: number; time: number }): Uint8Array {
  const scalar = new Message().text(1, tag).float(2, value).finish();
  return new Message().double(1, time).int64(2, step).data(5, new Message().data(1, scalar).finish()).finish();
}

/** An event file that is written to. Every event is on its way to the disk when `add` returns; what a killed process or a full disk leaves is whole events. */
export class EventFile {
  readonly path: string;
  private fd: number | undefined;
  private readonly now: () => number;

  /**
   * Begins a file of its own in a folder, as each run of a program does.
   * @param now seconds since 1970
   * @throws FormatError FILE_UNWRITABLE
   */
  constructor(folder: string, { now = () => Date.now() / 1000 }: { now?: () => number } = {}) {
    this.now = now;
    const start = now();
    this.path = join(folder, `events.out.tfevents.${Math.floor(start)}.${hostname()}.${process.pid}.${process.hrtime.bigint() % 1_000_000n}`);
    try {
      makeFolder(dirname(this.path));
      this.fd = openSync(this.path, "ax");
      writeFully(this.fd, tfRecord(versionEvent(start)));
    } catch (error) {
      throw fileError(this.path, "write", error);
    }
  }

  /** @throws FormatError FILE_UNWRITABLE */
  add(scalars: Readonly<Record<string, number>>, step: number): void {
    const { fd } = this;
    if (fd === undefined) return;
    const time = this.now();
    try {
      appendWhole(fd, Buffer.concat(Object.entries(scalars).map(([tag, value]) => tfRecord(scalarEvent(tag, value, { step, time })))));
    } catch (error) {
      throw fileError(this.path, "write", error);
    }
  }

  close(): void {
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
  }
}
