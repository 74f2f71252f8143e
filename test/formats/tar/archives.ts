/** Archives for tests: members as headers and padded data. */
import { blockSize, paddedSize, recordSize, type TarFormat, tarTypes } from "../../../src/formats/tar/header.ts";
import { printTarHeader } from "../../../src/formats/tar/printHeader.ts";

/** What a test says of a member. */
export interface Spec {
  name: string;
  data?: Uint8Array | string;
  type?: string;
  linkName?: string;
}

/** The bytes of a member, with its padding. */
export function memberBytes({ name, data = "", type = tarTypes.file, linkName = "" }: Spec, format: TarFormat = "pax"): Buffer {
  const bytes = Buffer.from(data);
  const header = printTarHeader({ name, mode: 0o644, uid: 0, gid: 0, size: bytes.length, mtime: 1_700_000_000, type, linkName, userName: "", groupName: "" }, { format });
  return Buffer.concat([header, bytes, Buffer.alloc(paddedSize(bytes.length) - bytes.length)]);
}

/** A whole archive, with its end mark and padding. */
export function archive(specs: readonly Spec[], format: TarFormat = "pax"): Buffer {
  const parts = specs.map((spec) => memberBytes(spec, format));
  const length = parts.reduce((sum, part) => sum + part.length, 2 * blockSize);
  return Buffer.concat([...parts, Buffer.alloc(Math.ceil(length / recordSize) * recordSize - length + 2 * blockSize)]);
}
