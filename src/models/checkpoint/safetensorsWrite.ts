/** Writes checkpoints as safetensors: tensors by prefix, everything else as JSON in the metadata. */
import { levelsNote, safeDtype, writeSafetensors } from "../../formats/index.ts";
import { internal } from "../../util/errors.ts";
import type { RawCheckpoint, RawTensor } from "./raw.ts";

/** Files of a higher number are not read. */
export const safetensorsVersion = 1;

/** What stands before the names of each part's tensors. */
export const prefixes = { model: "model.", modelAvg: "model_avg.", optimizer: "optimizer." } as const;

/** @throws FormatError FILE_UNWRITABLE */
export function writeSafetensorsCheckpoint(path: string, { config, state, generator, tokenizer, ...parts }: RawCheckpoint): void {
  const tensors = new Map<string, RawTensor>();
  for (const part of Object.keys(prefixes) as (keyof typeof prefixes)[]) for (const [key, tensor] of parts[part] ?? []) tensors.set(prefixes[part] + key, tensor);
  const bytes = (data: Uint8Array): RawTensor => ({ dtype: "uint8", shape: [data.length], bytes: Uint8Array.from(data) });
  if (generator) tensors.set("generator", bytes(generator));
  tensors.set("tokenizer", bytes(tokenizer));
  const entries = Array.from(
    tensors,
    ([key, { dtype, shape, bytes }]) => [key, { dtype: safeDtype(dtype) ?? internal(`no safetensors name for ${dtype}`), shape, bytes: () => bytes }] as const,
  );
  const levels = levelsNote({ under: [], dicts: Object.values(prefixes).map((prefix) => [prefix.slice(0, -1)]) });
  writeSafetensors(path, new Map(entries), { serac: JSON.stringify({ version: safetensorsVersion, config, state }), ...levels });
}
