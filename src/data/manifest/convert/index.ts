/** Conversion of manifests between the formats of NeMo, lhotse, Kaldi and tables. */
export { type Loss, type ManifestFormat, manifestFormats } from "./common.ts";
export { type ConversionResult, type ConvertManifestOptions, convertManifest, detectFormat } from "./convert.ts";
export type { Segments } from "./lhotse.ts";
export { type SharAudioFormat, sharAudioFormats } from "./shar.ts";
