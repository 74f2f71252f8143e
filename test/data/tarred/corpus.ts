/** A small corpus for tests: each utterance is a wav whose samples all have one value, so that a mix-up cannot go unseen. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TarFormat } from "../../../src/formats/tar/header.ts";
import { serializeWav } from "../../../src/formats/wav.ts";
import { archive } from "../../formats/tar/archives.ts";

export const rate = 8000;

/** A wav of `seconds`, the k-th tenth of a second of which has the value (level + k) / 1000. */
export function tone(level: number, seconds = 0.1): Uint8Array {
  const samples = Float32Array.from({ length: Math.round(seconds * rate) }, (_, i) => (level + Math.floor(i / (rate / 10))) / 1000);
  return serializeWav({ sampleRate: rate, channels: [samples] }, { format: "float32" });
}

/** The level of the first sample. */
export const levelOf = (samples: Float32Array | undefined): number => Math.round((samples?.[0] ?? Number.NaN) * 1000);

/** What a manifest's line says. */
export type Line = Record<string, unknown> & { audio_filepath: string };

/** A shard to write: its members in order, and its manifest's lines. */
export interface ShardSpec {
  members: { name: string; data: Uint8Array | string; type?: string; linkName?: string }[];
  lines: Line[];
}

/** Writes audio_N.tar and sharded_manifests/manifest_N.json from `first` on, and tarred_audio_manifest.json with all lines. */
export function writeDataset(
  folder: string,
  shards: readonly ShardSpec[],
  { first = 0, format = "pax", pack = (bytes) => bytes, suffix = "" }: { first?: number; format?: TarFormat; pack?: (bytes: Buffer) => Buffer; suffix?: string } = {},
): { tars: string; manifests: string; manifest: string } {
  mkdirSync(join(folder, "sharded_manifests"), { recursive: true });
  const print = (lines: readonly Line[]): string => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  shards.forEach(({ members, lines }, i) => {
    writeFileSync(join(folder, `audio_${i + first}.tar${suffix}`), pack(archive(members, format)));
    writeFileSync(join(folder, "sharded_manifests", `manifest_${i + first}.json`), print(lines));
  });
  writeFileSync(join(folder, "tarred_audio_manifest.json"), print(shards.flatMap(({ lines }) => lines)));
  const last = shards.length + first - 1;
  return {
    tars: join(folder, `audio__OP_${first}..${last}_CL_.tar${suffix}`),
    manifests: join(folder, `sharded_manifests/manifest__OP_${first}..${last}_CL_.json`),
    manifest: join(folder, "tarred_audio_manifest.json"),
  };
}

/** `counts[i]` utterances in shard i, levels and texts counted through: "u0", "u1", ... */
export function simpleShards(counts: readonly number[], first = 0): ShardSpec[] {
  let n = 0;
  return counts.map((count, shard) => {
    const members: ShardSpec["members"] = [];
    const lines: Line[] = [];
    for (let i = 0; i < count; i++, n++) {
      members.push({ name: `u${n}.wav`, data: tone(n) });
      lines.push({ audio_filepath: `u${n}.wav`, duration: 0.1, text: `u${n}`, shard_id: shard + first });
    }
    return { members, lines };
  });
}
