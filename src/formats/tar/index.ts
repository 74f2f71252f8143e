/** Tar archives: headers, reading in order, and reading at random by `.idx` files. */
export type { TarFormat, TarHeader } from "./header.ts";
export { blockSize, isZeroBlock, paddedSize, parsePaxRecords, parseTarHeader, recordSize, tarTypes } from "./header.ts";
export { type PrintTarOptions, printTarHeader } from "./printHeader.ts";
export { isRegular, type ReadTarOptions, readTar, readTarSource, type TarMember } from "./read.ts";
export {
  buildTarIndex,
  IndexedTar,
  indexOfMembers,
  indexPath,
  listIndexed,
  listTar,
  parseTarIndex,
  readTarIndex,
  sampleKey,
  serializeTarIndex,
  type TarIndex,
  writeTarIndex,
} from "./readIndex.ts";
export { compressionOf, openTarSource, streamSource, type TarCompression, type TarSource } from "./source.ts";
