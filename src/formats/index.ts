export { writeFileAtomic } from "./atomic.ts";
export { parseSafetensors, readSafetensors, serializeSafetensors, writeSafetensors } from "./safetensors.ts";
export type { SafeData, SafeDtype, SafeTensor, SafeTensors } from "./safetensors.ts";
