/** `serac manifest convert`: between the formats of NeMo, lhotse, Kaldi and tables. */
import { convertManifest, manifestFormats, sharAudioFormats } from "../data/index.ts";
import { choice, integer, path } from "../util/options.ts";
import { command } from "./command.ts";
import { BadLines, pathsOption, readOptions } from "./manifestOptions.ts";

export const manifestConvert = command({
  name: "manifest convert",
  summary: "Convert to and from lhotse cuts and Shar, Kaldi data folders, CSV and TSV",
  description: [
    "nemo: an object a line. lhotse: cuts (.jsonl.gz). shar, kaldi: folders. csv, tsv: a table with a head. json: one array or object over several lines, read only.",
    "What the target cannot hold is listed; --json lists it as data.",
  ].join("\n"),
  examples: [
    "serac manifest convert train.jsonl cuts.jsonl.gz",
    "serac manifest convert train.jsonl shar_train --to shar --audio-format flac",
    "serac manifest convert data/train train.jsonl --from kaldi",
    "serac manifest convert cuts.jsonl.gz train.jsonl --segments supervision",
  ],
  positional: { input: { help: "what to convert: a manifest, a table, or a folder" }, output: { help: "what to write; - is standard output" } },
  options: {
    from: choice(manifestFormats, { help: "format of the input; told from what is there" }),
    to: choice(manifestFormats, { help: "format of the output; told from its name: cuts*.jsonl.gz, *.csv, *.tsv, else nemo" }),
    segments: choice(["cut", "supervision"], { default: "cut", help: "lines from lhotse: cuts with their texts joined, as NeMo reads them, or each supervision" }),
    shardSize: integer({ default: 1000, min: 1, help: "utterances a shard of Shar", group: "Shar" }),
    audioFormat: choice(sharAudioFormats, { default: "flac", help: "encoding of audio in Shar", group: "Shar" }),
    audioDir: path({ unit: "folder", help: "where audio from Shar goes; OUTPUT_audio by default", group: "Shar" }),
    paths: pathsOption(),
    ...readOptions,
  },
  async run({ input, output, from, to, audioDir, skipBadLines, ...options }, out) {
    const bad = new BadLines(skipBadLines);
    const progress = out.progress(undefined, "utterances", "converting");
    const result = await convertManifest([input], output, {
      ...options,
      ...bad.options,
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
      ...(audioDir === undefined ? {} : { audioFolder: audioDir }),
      onProgress: (count) => progress.add(count),
    });
    progress.finish();
    bad.report(out);
    if (out.json && output !== "-") out.print(JSON.stringify({ ...result, badLines: bad.count, out: output }));
    out.say(`wrote ${result.utterances} utterances as ${result.to}${result.dropped > 0 ? `, left out ${result.dropped}` : ""}`);
    if (result.losses.length > 0) out.say(`what ${result.to} cannot hold:`);
    for (const { what, count, example } of result.losses) out.say(`  ${count}  ${what} (first: ${example})`);
    if (result.to === "nemo" && output !== "-") out.next(`serac manifest check ${output}`);
  },
});
