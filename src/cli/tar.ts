import { convertOptions } from "../data/tarred/convert/options.ts";
import type { ConvertReport } from "../data/tarred/convert/report.ts";
import { ConfigError } from "../util/errors.ts";
import { command } from "./command.ts";

/** `serac tar`: NeMo's convert_to_tarred_audio_dataset.py, with its flags and its files. */
export const tar = command({
  name: "tar",
  summary: "Convert manifests to a tarred dataset, as NeMo's script does",
  description: [
    "Takes the flags of convert_to_tarred_audio_dataset.py, with dashes or underscores, and writes its files: audio_N.tar, sharded_manifests,",
    "tarred_audio_manifest.json and metadata.yaml; besides them tarred_audio_record.json with the SHA-256 of each tar file.",
    "A run that was ended goes on when it is called again. Also: serac tar shards, serac tar filter, serac tar verify.",
  ].join("\n"),
  examples: [
    "serac tar --manifest_path train.json --target_dir tarred --num_shards 64 --max_duration 20 --min_duration 0.1 --shuffle --shuffle_seed 1",
    "serac tar --manifest_path train.json --target_dir tarred --num_shards 64 --max_duration 20 --slice_with_offset --force_codec flac",
    "serac tar --manifest_path tarred/tarred_audio_manifest.json --metadata_path tarred/metadata.yaml --target_dir tarred --max_duration 20 --concat_manifest_paths more.json",
  ],
  positional: { moreManifests: { help: "more manifests to append, behind --concat-manifest-paths", optional: true, many: true } },
  options: convertOptions,
  async run({ moreManifests, ...options }, out) {
    if (options.writeMetadata) {
      const { writeDefaultMetadata } = await import("../data/tarred/convert/describe.ts");
      out.print(writeDefaultMetadata(options));
      return 0;
    }
    if ((moreManifests?.length ?? 0) > 0) {
      if (options.concatManifestPaths === undefined)
        throw new ConfigError("CONFIG_BAD_VALUE", { message: `what is "${moreManifests[0]}"? Manifests are named by --manifest_path`, fix: "for all options: serac tar --help" });
      options.concatManifestPaths = [...options.concatManifestPaths, ...moreManifests];
    }
    let progress: ReturnType<typeof out.progress> | undefined;
    const { convertToTarred } = await import("../data/tarred/convert/convert.ts");
    const reports = await convertToTarred(options, {
      say: (line) => out.say(line),
      begin: (entries) => {
        progress = out.progress(entries, "utterances");
      },
      entries: (count) => progress?.add(count),
      signal: out.signal,
    });
    if (reports.some(({ written }) => written > 0)) progress?.finish();
    if (out.json) out.print(JSON.stringify(options.bucketsNum > 1 ? reports : reports[0]));
    else for (const report of reports) out.print(summary(report, options.dryRun));
    const made = reports.find(({ written }) => written > 0);
    if (made && options.onlyManifests) out.next(`serac tar shards --tarred_manifest_filepath ${made.target}/tarred_audio_manifest.json`);
    else if (made) out.next(`serac tar verify ${made.target}`);
    return 0;
  },
});

function summary({ target, shards, written, resumed, keptSeconds, kept, dropped, unreadable }: ConvertReport, dryRun: boolean): string {
  if (dryRun) return `${kept} utterances, ${(keptSeconds / 3600).toFixed(2)} h, would go into ${shards} shards; ${dropped} would be dropped`;
  if (written === 0) return `${target}: ${resumed > 0 ? "complete" : "nothing written"}`;
  const left = [...(dropped > 0 ? [`${dropped} dropped`] : []), ...(unreadable > 0 ? [`${unreadable} unreadable`] : [])];
  return `${target}: ${written} utterances in ${shards} shards${left.length > 0 ? ` (${left.join(", ")})` : ""}`;
}
