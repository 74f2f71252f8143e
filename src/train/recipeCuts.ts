/** The manifests of cuts that icefall's LibriSpeech recipe reads, as serac prepare and the recipe's own scripts name them. Source: icefall, asr_datamodule.py. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { FormatError } from "../util/errors.ts";
import type { TrainOptions } from "./options.ts";

/** Paths of manifests of cuts. */
export interface RecipeCuts {
  train: string[];
  valid: string[];
  /** Noise, where it is asked for. */
  musan: string | undefined;
}

type Choice = Pick<TrainOptions, "manifestDir" | "fullLibri" | "miniLibri" | "enableMusan" | "noisePath">;

/**
 * @param say told where validation goes without one of its parts
 * @throws FormatError FILE_MISSING with what is there instead
 */
export function recipeCuts({ manifestDir, fullLibri, miniLibri, enableMusan, noisePath }: Choice, say?: (line: string) => void): RecipeCuts {
  const pathOf = (part: string): string => join(manifestDir, `librispeech_cuts_${part}.jsonl.gz`);
  const missing = (path: string, fix: string): never => {
    const there = existsSync(manifestDir) ? readdirSync(manifestDir).flatMap((name) => /^librispeech_cuts_(.+)\.jsonl\.gz$/.exec(name)?.[1] ?? []) : [];
    throw new FormatError("FILE_MISSING", { at: path, message: `no such file${there.length === 0 ? "" : `; of LibriSpeech there is ${there.sort().join(", ")}`}`, fix });
  };
  const train = pathOf(miniLibri ? "train-clean-5" : fullLibri ? "train-all-shuf" : "train-clean-100");
  if (!existsSync(train))
    missing(
      train,
      miniLibri || !fullLibri || !existsSync(pathOf("train-clean-100"))
        ? "make it by serac prepare librispeech, name its folder by --manifest-dir, or name other data: --train-manifest, --train-ds"
        : "--full-libri 0 trains on train-clean-100; train-all-shuf is made where all three training parts are there",
    );
  const parts = miniLibri ? ["dev-clean-2"] : ["dev-clean", "dev-other"];
  const valid = parts.map(pathOf).filter((path) => existsSync(path));
  if (valid.length === 0) missing(pathOf(parts[0] as string), "prepare that part too, or name other data to validate on: --valid-manifest");
  for (const part of parts) if (!valid.includes(pathOf(part))) say?.(`${pathOf(part)} is missing: validation goes without ${part}`);
  const musan = enableMusan && noisePath === undefined ? join(manifestDir, "musan_cuts.jsonl.gz") : undefined;
  if (musan !== undefined && !existsSync(musan)) missing(musan, "make it by serac prepare musan, name other noise by --noise-path, or train without: --enable-musan 0");
  return { train: [train], valid, musan };
}
