export { audioInfo, readAudio, toMono, writeAudio } from "./decode.ts";
export type { Audio, AudioFormat, AudioInfo, AudioRange } from "./decode.ts";
export { fbank, fbankSync, numFramesOf } from "./fbank.ts";
export type { FbankOptions, Features } from "./fbank.ts";
