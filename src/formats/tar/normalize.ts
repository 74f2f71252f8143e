/** Archives without what depends on who wrote them, so that they can be compared between machines. */
import { blockSize, checksums, fields, isZeroBlock, paddedSize, parseTarHeader } from "./header.ts";

/**
 * @param isTar false gives the bytes back
 * @returns a copy in which no header names an owner
 * @throws FormatError TAR_BAD, TAR_TRUNCATED
 */
export function normalizeOwners(bytes: Uint8Array, isTar = true): Buffer {
  const result = Buffer.from(bytes);
  if (!isTar) return result;
  for (let at = 0; at + blockSize <= result.length; ) {
    const block = result.subarray(at, at + blockSize);
    if (isZeroBlock(block)) break;
    const { size } = parseTarHeader(block, `byte ${at}`);
    for (const name of ["uid", "gid"] as const) block.write("0000000\0", fields[name].at, "latin1");
    for (const name of ["userName", "groupName"] as const) block.fill(0, fields[name].at, fields[name].at + fields[name].length);
    block.write(`${checksums(block).unsigned.toString(8).padStart(6, "0")}\0 `, fields.checksum.at, "latin1");
    at += blockSize + paddedSize(size);
  }
  return result;
}
