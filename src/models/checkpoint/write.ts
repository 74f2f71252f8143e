/** Writes a checkpoint in the format that its name tells. Needs no libtorch, so that any thread can do it. */
import { formatOfName } from "../../formats/index.ts";
import { writePtCheckpoint } from "./ptWrite.ts";
import type { RawCheckpoint } from "./raw.ts";
import { writeSafetensorsCheckpoint } from "./safetensorsWrite.ts";

/** Beside its place, then renamed: a killed run never leaves half of one. @throws FormatError FILE_UNWRITABLE */
export function writeCheckpoint(path: string, checkpoint: RawCheckpoint): void {
  if (formatOfName(path) === "safetensors") writeSafetensorsCheckpoint(path, checkpoint);
  else writePtCheckpoint(path, checkpoint);
}
