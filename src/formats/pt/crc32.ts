/** CRC-32 as zip files have it. Node's own where this Node has it (20.15, 22.2), else by a table. */
import * as zlib from "node:zlib";

const table = new Uint32Array(256).map((_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

/** The same by a table, a byte at a time. */
export function tableCrc32(bytes: Uint8Array, previous = 0): number {
  let crc = ~previous;
  for (const byte of bytes) crc = (table[(crc ^ byte) & 255] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** The checksum of `bytes` behind bytes whose checksum is `previous`. */
export const crc32: (bytes: Uint8Array, previous?: number) => number = typeof zlib.crc32 === "function" ? (bytes, previous = 0) => zlib.crc32(bytes, previous) : tableCrc32;
