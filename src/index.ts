/**
 * serac: speech recognition in TypeScript on libtorch. The names that most programs need; each layer has an entry of its own
 * (serac/data, serac/torch, serac/models, ...). Importing does not load libtorch: that happens when it is first used.
 */
export { loadManifest, readManifest } from "./data/index.ts";
export { type DecodingMethod, Recognizer, type TimedToken, type Transcript } from "./decode/index.ts";
export { SentencePiece, trainBpe } from "./text/index.ts";
export { type TrainOptionsInput, type TrainReporter, type TrainResult, train } from "./train/index.ts";
export { type ErrorCode, errorCodes } from "./util/errorCodes.ts";
export * from "./util/errors.ts";
