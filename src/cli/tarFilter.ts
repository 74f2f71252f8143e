import { choice, integer } from "../util/options.ts";
import { command } from "./command.ts";

/** `serac tar filter`: NeMo's filter_tarred_audio_dataset.py. */
export const tarFilter = command({
  name: "tar filter",
  summary: "Write a part of a tarred dataset as a dataset of its own",
  description: "Keeps the utterances that the filtered manifest names by audio_filepath and offset, with that manifest's values. Audio becomes FLAC, with the same samples.",
  examples: [
    "serac tar filter tarred/tarred_audio_manifest.json 'tarred/audio_{0..63}.tar' clean.json clean -f nemo_tarred -s 500",
    "serac tar filter tarred/tarred_audio_manifest.json 'tarred/audio__OP_0..63_CL_.tar' clean.json clean-shar",
  ],
  positional: {
    manifestFilepath: { help: "manifest of the dataset, or pattern" },
    tarredAudioFilepaths: { help: "its tar files, as a pattern" },
    filteredManifestFilepath: { help: "manifest with the lines to keep" },
    outputDir: { help: "folder to write to" },
  },
  options: {
    outputFormat: choice(["lhotse_shar", "nemo_tarred"], { default: "lhotse_shar", short: "f", help: "what to write" }),
    shardSize: integer({ default: 1000, min: 1, short: "s", help: "utterances of a shard" }),
  },
  async run(options, out) {
    const { filterTarred } = await import("../data/tarred/filter.ts");
    const progress = out.progress(undefined, "utterances");
    const report = await filterTarred({ ...options, onUtterances: (count) => progress.add(count), say: (line) => out.say(line) });
    progress.finish();
    if (out.json) out.print(JSON.stringify(report));
    else out.print(`${options.outputDir}: ${report.kept} utterances in ${report.shards} shards`);
    return 0;
  },
});
