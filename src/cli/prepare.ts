/** `serac prepare librispeech` and `serac prepare musan`: a corpus as downloaded becomes cuts under the names that icefall's recipe reads. */

import { existsSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { boolean, choice, integer, path, strings } from "../util/options.ts";
import { command } from "./command.ts";
import type { Output } from "./output.ts";

const shared = {
  outDir: path({ default: "data", unit: "folder", help: "manifests go to its folder manifests, cuts and features to its folder fbank, as in icefall" }),
  features: choice(["stored", "on-the-fly"], { default: "stored", help: "compute and store fbank features (lilcom_chunky), or leave them to training" }),
  numMelBins: integer({ default: 80, min: 1, help: "bins of the features" }),
  numJobs: integer({ default: cpus().length, min: 1, unit: "n", help: "utterances that are computed at the same time" }),
};

interface Common {
  outDir: string;
  features: "stored" | "on-the-fly";
  numMelBins: number;
  numJobs: number;
}

async function optionsOf({ outDir, features, numMelBins, numJobs }: Common, out: Output) {
  const { LeftOut } = await import("../data/index.ts");
  const leftOut = new LeftOut();
  let progress: ReturnType<Output["progress"]> | undefined;
  return {
    leftOut,
    finish: () => progress?.finish(),
    options: {
      manifestFolder: join(outDir, "manifests"),
      cutsFolder: join(outDir, "fbank"),
      features: features === "stored",
      numMelBins,
      jobs: numJobs,
      leftOut,
      signal: out.signal,
      onStart: (part: string, cuts: number) => {
        progress?.finish();
        progress = out.progress(cuts, "cuts", part);
      },
      onProgress: (cuts: number) => progress?.add(cuts),
    },
  };
}

interface Prepared {
  part: string;
  recordings: number;
  cuts: number;
  hours: number;
  cutHours: number;
  path: string;
  written: boolean;
}

function report(parts: readonly Prepared[], leftOut: { lines(): string[] }, out: Output): void {
  for (const line of leftOut.lines()) out.say(`left out ${line}`);
  if (!out.json)
    for (const { path: file, recordings, cuts, hours, cutHours, written } of parts)
      out.print(`${file}  ${recordings} recordings, ${hours.toFixed(2)} h; ${cuts} cuts, ${cutHours.toFixed(2)} h${written ? "" : "  (was there already)"}`);
}

/** What train's flags choose among the training parts that are there. */
function trainFlags(cutsFolder: string): string {
  const has = (part: string): boolean => existsSync(join(cutsFolder, `librispeech_cuts_${part}.jsonl.gz`));
  return has("train-all-shuf") ? "" : has("train-clean-100") || !has("train-clean-5") ? " --full-libri 0" : " --mini-libri 1";
}

export const prepareLibrispeechCommand = command({
  name: "prepare librispeech",
  summary: "Make manifests, cuts and features of LibriSpeech, as icefall's recipe names them",
  description:
    "DIR is the folder that the archives were unpacked to (LibriSpeech/train-clean-100/...). Training parts get copies at 0.9 and 1.1 times the speed.\nA run that was stopped goes on where it was; what is finished is left as it is.",
  examples: ["serac prepare librispeech download/LibriSpeech", "serac prepare librispeech download --parts train-clean-100,dev-clean --features on-the-fly --json"],
  positional: { dir: { help: "folder of the corpus" } },
  options: {
    parts: strings({ unit: "part,...", help: "parts to prepare; all that are there by default" }),
    perturbSpeed: boolean({ default: true, help: "copies of training parts at 0.9 and 1.1 times the speed" }),
    seed: integer({ default: 0, help: "seeds the order of librispeech_cuts_train-all-shuf.jsonl.gz" }),
    ...shared,
  },
  async run({ dir, parts, perturbSpeed, seed, ...common }, out) {
    const { prepareLibrispeech, shuffleTrainCuts } = await import("../data/index.ts");
    const { options, leftOut, finish } = await optionsOf(common, out);
    const prepared = await prepareLibrispeech(dir, { ...options, parts, perturbSpeed });
    finish();
    const shuffled = await shuffleTrainCuts(options.cutsFolder, seed);
    report(prepared, leftOut, out);
    if (out.json) out.print(JSON.stringify({ parts: prepared, shuffled, leftOut: Object.fromEntries(leftOut.counts) }));
    else if (shuffled) out.print(`${shuffled.path}  ${shuffled.cuts} cuts, shuffled`);
    out.next(
      `serac data inspect cuts.yaml   # - {type: lhotse, cuts_path: ${prepared[0]?.path}}`,
      `serac train --manifest-dir ${options.cutsFolder}${trainFlags(options.cutsFolder)}`,
    );
  },
});

export const prepareMusanCommand = command({
  name: "prepare musan",
  summary: "Make manifests, cuts and features of MUSAN, as icefall's recipe names them",
  description: "DIR is the folder that the archive was unpacked to (musan/music, speech, noise). Recordings are cut in windows of 10 s; last ones of 5 s and less are left out.",
  examples: ["serac prepare musan download/musan", "serac prepare musan download/musan --parts noise,music --features on-the-fly"],
  positional: { dir: { help: "folder of the corpus" } },
  options: { parts: strings({ unit: "part,...", help: "music, speech, noise; all that are there by default" }), ...shared },
  async run({ dir, parts, ...common }, out) {
    const { prepareMusan } = await import("../data/index.ts");
    const { options, leftOut, finish } = await optionsOf(common, out);
    const prepared = await prepareMusan(dir, { ...options, parts });
    finish();
    report(prepared, leftOut, out);
    if (out.json) out.print(JSON.stringify({ parts: prepared, leftOut: Object.fromEntries(leftOut.counts) }));
  },
});
