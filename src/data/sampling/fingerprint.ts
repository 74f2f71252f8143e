/** Short names of contents, by which a restart tells that its data is what it was. */
import { mix } from "../../util/hash.ts";

/** @returns 16 hexadecimal digits that depend on every bit of the numbers and on their order; of the rows given, or of all */
export function hashNumbers(values: Float64Array, rows?: Uint32Array): string {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length * 2);
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  const count = rows?.length ?? values.length;
  for (let i = 0; i < count; i++) {
    const at = 2 * (rows ? (rows[i] as number) : i);
    a = Math.imul(a ^ (words[at] as number), 0x01000193);
    a = Math.imul(a ^ (words[at + 1] as number), 0x01000193);
    a ^= a >>> 15;
    b = Math.imul(b ^ (words[at + 1] as number), 0x5bd1e995);
    b = Math.imul(b ^ (words[at] as number), 0x5bd1e995);
    b ^= b >>> 13;
  }
  return (
    mix(a ^ count)
      .toString(16)
      .padStart(8, "0") +
    mix(b + count)
      .toString(16)
      .padStart(8, "0")
  );
}
