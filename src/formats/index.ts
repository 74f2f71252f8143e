export { writeFileAtomic } from "./atomic.ts";
export { readBytes } from "./byteSource.ts";
export type { JsonLine, ReadJsonlOptions } from "./jsonl.ts";
export { parseJsonLine, readJsonl, writeJsonl } from "./jsonl.ts";
export type { SafeData, SafeDtype, SafeTensor, SafeTensors } from "./safetensors.ts";
export { parseSafetensors, readSafetensors, serializeSafetensors, writeSafetensors } from "./safetensors.ts";
export type { PcmAudio, WavFormat, WavHeader } from "./wav.ts";
export { parseWav, parseWavHeader, serializeWav } from "./wav.ts";
