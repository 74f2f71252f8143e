import { boolean, integer, path, string } from "../util/options.ts";
import { command } from "./command.ts";

/** `serac tar shards`: NeMo's partial_conversion_to_tarred_audio_dataset.py. */
export const tarShards = command({
  name: "tar shards",
  summary: "Tar some shards of a dataset whose manifests were made with --only_manifests",
  description: [
    "Several jobs may tar different shards of one dataset at the same time. What is there already and whole is left as it is.",
    "Options may be written as those of NeMo's script: shards_to_tar=0:16.",
  ].join("\n"),
  examples: [
    "serac tar shards --tarred_manifest_filepath tarred/tarred_audio_manifest.json --shards_to_tar 0:16",
    "serac tar shards tarred_manifest_filepath=tarred/tarred_audio_manifest.json shards_to_tar=0:16 num_workers=2",
    "serac tar shards --tarred_manifest_filepath tarred/tarred_audio_manifest.json --shards_to_tar 3,7 --output_dir /data/tars",
  ],
  options: {
    tarredManifestFilepath: path({ required: true, help: "manifest of all shards" }),
    outputDir: path({ help: "folder for the tar files; that of the manifest by default" }),
    shardsToTar: string({ default: "all", unit: "shards", help: "all, a number, a range 0:3 (without 3), or several with commas" }),
    numWorkers: integer({ default: -1, min: -1, help: "threads; -1 is one for each core" }),
    datasetMetadataFilepath: path({ help: "metadata.yaml; that beside the manifest by default" }),
    deterministicHeaders: boolean({ default: false, help: "store no times, owners and modes of files" }),
    overwrite: boolean({ default: false, help: "replace tar files that are there" }),
  },
  overrides: true,
  async run(options, out) {
    const { tarShards } = await import("../data/tarred/convert/partial.ts");
    let progress: ReturnType<typeof out.progress> | undefined;
    const report = await tarShards(options, {
      begin: (entries) => {
        progress = out.progress(entries, "utterances");
      },
      entries: (count) => progress?.add(count),
      signal: out.signal,
    });
    progress?.finish();
    if (out.json) out.print(JSON.stringify(report));
    else out.print(`${report.shards} shards with ${report.entries} utterances${report.skipped > 0 ? `; ${report.skipped} were there already` : ""}`);
    return 0;
  },
});
