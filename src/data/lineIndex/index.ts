/** Indices of manifests: where lines begin, and the figures by which they are sampled and filtered. */
export type { BuildOptions, LineIndex } from "./build.ts";
export { readColumns, writeColumns } from "./columnFile.ts";
export {
  anyFormat,
  badDuration,
  type LineFigures,
  type LineFormat,
  lineDuration,
  type ParsedLine,
  parseManifestLine,
  skipReason,
  type TokenCounter,
  type UnwantedLine,
} from "./format.ts";
export { type FileIdentity, identityOf, isClearlyYounger } from "./identity.ts";
export { IndexedLines } from "./lines.ts";
export { digestOf, lineIndexPath, type OpenIndexOptions, openAnyLineIndex, openLineIndex } from "./open.ts";
export { PackedTexts } from "./packedTexts.ts";
