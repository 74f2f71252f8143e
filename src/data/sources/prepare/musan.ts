/**
 * MUSAN as downloaded becomes lhotse's recordings, and cuts of 5 to 10 seconds under the name that icefall's recipe expects.
 * Source: lhotse, recipes/musan.py; icefall, local/compute_fbank_musan.py.
 */
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { ManifestError } from "../../../util/errors.ts";
import { withWriters } from "../../manifest/writer.ts";
import { corpusFolder, filesBelow, type PreparedPart, type PrepareOptions, withHeaders } from "./librispeech.ts";
import { type CorpusItem, planWindows, recordingLine, supervisionLine } from "./lines.ts";
import { writeCuts } from "./write.ts";

/** Parts of MUSAN, in the order in which icefall joins them. */
export const musanParts = ["music", "speech", "noise"] as const;
/** Seconds of the windows, and those at and below which a last one is left out. Source: icefall. */
const windows = { duration: 10, longerThan: 5 };

/** Genres, vocals and artist of music, by recording: lines of NAME GENRES Y|N ARTIST. */
function annotationsOf(folder: string): Map<string, Pick<CorpusItem, "speaker" | "custom">> {
  const found = new Map<string, Pick<CorpusItem, "speaker" | "custom">>();
  for (const file of filesBelow(folder, "ANNOTATIONS"))
    for (const line of readFileSync(file, "utf8").split("\n")) {
      const [id, genres, vocals, artist] = line.trim().split(/\s+/);
      if (id && genres && vocals && artist) found.set(id, { speaker: artist, custom: { genres: genres.split(","), vocals: vocals === "Y" } });
    }
  return found;
}

/** Prepares MUSAN. @throws ManifestError CORPUS_BAD; FormatError FILE_UNWRITABLE; AudioError while features are computed */
export async function prepareMusan(folder: string, options: PrepareOptions & { parts?: readonly string[] | undefined }): Promise<PreparedPart[]> {
  const { manifestFolder, cutsFolder, features, jobs, leftOut, onStart } = options;
  const corpus = corpusFolder(folder, "musan", musanParts, "MUSAN");
  const parts = options.parts ?? musanParts.filter((part) => existsSync(join(corpus, part)));
  const items: CorpusItem[] = [];
  for (const part of parts) {
    if (!existsSync(join(corpus, part)))
      throw new ManifestError("CORPUS_BAD", { at: join(corpus, part), message: "there is no such part", fix: `parts: ${musanParts.join(", ")}` });
    const files = filesBelow(join(corpus, part), ".wav").map((path) => ({ id: basename(path, ".wav"), path }));
    const own = (await withHeaders(files, jobs, leftOut)).map(({ file, ...audio }): CorpusItem => ({ ...file, ...audio }));
    if (own.length === 0) throw new ManifestError("CORPUS_BAD", { at: join(corpus, part), message: "no audio that can be read", fix: "unpack the part again" });
    const recordings = join(manifestFolder, `musan_recordings_${part}.jsonl.gz`);
    if (!existsSync(recordings))
      await withWriters([recordings], async ([writer]) => {
        for (const item of own) await writer?.writeText(recordingLine(item));
      });
    if (part === "music") {
      const notes = annotationsOf(join(corpus, part));
      const supervisions = join(manifestFolder, `musan_supervisions_${part}.jsonl.gz`);
      if (!existsSync(supervisions))
        await withWriters([supervisions], async ([writer]) => {
          for (const item of own) {
            const note = notes.get(item.id);
            if (note) await writer?.writeText(supervisionLine({ ...item, ...note }));
          }
        });
    }
    items.push(...own);
  }
  const plans = items.flatMap((item, i) => planWindows(item, i, windows));
  if (plans.length === 0) throw new ManifestError("CORPUS_BAD", { at: corpus, message: `no recording of more than ${windows.longerThan} s` });
  onStart?.("musan", plans.length);
  const path = join(cutsFolder, "musan_cuts.jsonl.gz");
  const written = await writeCuts(plans, { ...options, path, featureFolder: features ? join(cutsFolder, "musan_feats") : undefined });
  const seconds = (list: readonly { samples: number; sampleRate: number }[]): number => list.reduce((sum, { samples, sampleRate }) => sum + samples / sampleRate, 0);
  return [
    {
      part: "musan",
      recordings: items.length,
      cuts: plans.length,
      hours: seconds(items) / 3600,
      cutHours: seconds(plans.map(({ samples, item }) => ({ samples, sampleRate: item.sampleRate }))) / 3600,
      path,
      written,
    },
  ];
}
