/**
 * Makes tarred datasets: what NeMo's convert_to_tarred_audio_dataset.py makes, equal byte for byte where it stores files as they are.
 * One call makes one dataset, one for each bucket of durations, or the next version of a dataset that it appends to.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { toFsPath } from "../../../formats/surrogateEscape.ts";
import { type Base, readBase } from "./concat.ts";
import { runConversion } from "./conversion.ts";
import { type ConvertInput, type ConvertOptions, encodes, readOptions } from "./options.ts";
import { JobPool, poolSize } from "./pool.ts";
import type { ConvertListener, ConvertReport } from "./report.ts";

/** The bounds and the folder of each bucket. */
function bucketsOf(options: ConvertOptions): ConvertOptions[] {
  const low = options.minDuration as number;
  const width = ((options.maxDuration as number) - low) / options.bucketsNum;
  return Array.from({ length: options.bucketsNum }, (_, i) => {
    const minDuration = low + i * width;
    // The last one also takes what is exactly as long as the upper bound.
    const maxDuration = minDuration + width + (i === options.bucketsNum - 1 ? 1e-5 : 0);
    return { ...options, minDuration, maxDuration, targetDir: join(options.targetDir, `bucket${i + 1}`) };
  });
}

/** What is appended is cut and encoded as the dataset is. */
function inherit(options: ConvertOptions, { metadata }: Base): ConvertOptions {
  const { slice_with_offset, force_codec } = metadata.dataset_config;
  const forceCodec = options.forceCodec ?? ((force_codec ?? undefined) as ConvertOptions["forceCodec"]);
  return { ...options, sliceWithOffset: options.sliceWithOffset || slice_with_offset, forceCodec };
}

/** Manifests of at least so many bytes have work for threads, whatever they name. */
const longManifest = 1 << 20;

/** True where threads will be wanted, whatever the manifests name: then they start while those are read. */
function haveMuch(manifests: readonly string[]): boolean {
  const size = (path: string): number => (path === "-" ? longManifest : (statSync(toFsPath(path), { throwIfNoEntry: false })?.size ?? 0));
  return manifests.reduce((sum, path) => sum + size(path), 0) >= longManifest;
}

/**
 * A conversion that was ended in any way goes on when it is called again.
 * @returns the reports of all datasets that a call makes: one, or one for each bucket
 * @throws ConfigError CONFIG_BAD_VALUE; ManifestError TARRED_*; FormatError of reading and writing; an AbortError where the listener's signal ended it
 */
export async function convertToTarred(input: ConvertInput, listener: ConvertListener = {}): Promise<ConvertReport[]> {
  const given = readOptions(input);
  if (given.keepFilesTogether && !given.shuffle) listener.say?.("--keep_files_together has no effect without --shuffle.");
  const base = given.concatManifestPaths === undefined ? undefined : await readBase(given, listener);
  const options = base ? inherit(given, base) : given;
  const paths = (options.concatManifestPaths ?? options.manifestPath) as readonly string[];
  const pool = new JobPool(options.dryRun ? 1 : poolSize(options.workers, options.numShards ?? Number.POSITIVE_INFINITY, encodes(options) && !options.onlyManifests));
  if (haveMuch(paths)) pool.start();
  try {
    if (options.bucketsNum === 1) return [await runConversion(paths, { options, listener, pool, ...(base ? { base } : {}) })];
    const reports: ConvertReport[] = [];
    for (const [i, bucket] of bucketsOf(options).entries()) {
      listener.say?.(`Bucket ${i + 1}, ${bucket.targetDir}:`);
      reports.push(await runConversion(paths, { options: bucket, listener, pool }));
    }
    return reports;
  } finally {
    await pool.close();
  }
}
