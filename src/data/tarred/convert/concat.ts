/** Appending to a tarred dataset: what the new shards start from. */
import { readFileSync } from "node:fs";
import { fileError } from "../../../formats/atomic.ts";
import { dumpPython, JsonSyntaxError, parsePython } from "../../../formats/pythonJson.ts";
import { FormatError, ManifestError } from "../../../util/errors.ts";
import type { TarredDatasetMetadata } from "./metadata.ts";
import type { ConvertOptions } from "./options.ts";
import type { ConvertListener } from "./report.ts";

/** The version that new shards are added to. */
export interface Base {
  /** The version that is made. */
  version: number;
  /** Number of the first new shard. */
  firstShard: number;
  /** Utterances of each new shard. */
  perShard: number;
  /** Lines of the manifest before the new ones. */
  manifest: string;
  metadata: TarredDatasetMetadata;
}

/**
 * Reads the dataset that is appended to. Its lines are taken over as they are: they were filtered when it was made, and their audio is in its tar files.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, JSONL_BAD_LINE; ManifestError TARRED_METADATA
 */
export async function readBase(options: ConvertOptions, { say }: ConvertListener): Promise<Base> {
  const { readMetadata } = await import("./readMetadata.ts");
  const metadataPath = options.metadataPath as string;
  const metadata = readMetadata(metadataPath);
  const path = options.manifestPath?.[0] as string;
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw fileError(path, "read", error);
  }
  const lines: string[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    try {
      lines.push(`${dumpPython(parsePython(line.trim()))}\n`);
    } catch (cause) {
      if (!(cause instanceof JsonSyntaxError)) throw cause;
      throw new FormatError("JSONL_BAD_LINE", { at: `${path}:${i + 1}:${cause.index + 1}`, message: cause.message, cause });
    }
  }
  const shards = metadata.dataset_config.num_shards;
  if (shards < 1) throw new ManifestError("TARRED_METADATA", { at: metadataPath, message: `dataset_config.num_shards is ${shards}, expected the number of shards of the dataset` });
  const perShard = metadata.num_samples_per_shard ?? Math.floor(lines.length / shards);
  if (perShard < 1)
    throw new ManifestError("TARRED_METADATA", {
      at: metadataPath,
      message: `num_samples_per_shard is ${perShard}, expected 1 or more`,
      fix: "write the number of utterances of a shard",
    });
  say?.(`The dataset has ${lines.length} utterances in ${shards} shards of ${perShard}.`);
  return { version: metadata.version + 1, firstShard: shards, perShard, manifest: lines.join(""), metadata };
}
