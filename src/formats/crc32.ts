/** CRC-32 as zip files have it (by Node where this Node has it: 20.15, 22.2), and CRC-32C as TensorBoard's files have it. */
import * as zlib from "node:zlib";

/** A checksum by a table, a byte at a time; `polynomial` has its bits reversed. */
function tableOf(polynomial: number): (bytes: Uint8Array, previous?: number) => number {
  const table = new Uint32Array(256).map((_, n) => {
    let c = n;
    for (let k = 0; k < 8; k++) c = c & 1 ? polynomial ^ (c >>> 1) : c >>> 1;
    return c;
  });
  return (bytes, previous = 0) => {
    let crc = ~previous;
    for (const byte of bytes) crc = (table[(crc ^ byte) & 255] as number) ^ (crc >>> 8);
    return ~crc >>> 0;
  };
}

/** CRC-32 without Node's. */
export const tableCrc32 = tableOf(0xedb88320);

/** CRC-32C (Castagnoli) of bytes behind bytes whose checksum is `previous`. */
export const crc32c = tableOf(0x82f63b78);

/** The checksum of `bytes` behind bytes whose checksum is `previous`. */
export const crc32: (bytes: Uint8Array, previous?: number) => number = typeof zlib.crc32 === "function" ? (bytes, previous = 0) => zlib.crc32(bytes, previous) : tableCrc32;
