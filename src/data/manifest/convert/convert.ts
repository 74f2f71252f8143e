/** Manifests from one format to another: lossless where the target can hold it, with a list of what it cannot. */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError } from "../../../util/errors.ts";
import { manifestPaths } from "../inputs.ts";
import { type ReadLinesOptions, readManifestLines } from "../lines.ts";
import { rebasePath } from "../paths.ts";
import { withReplay } from "../replay.ts";
import { ManifestWriter } from "../writer.ts";
import { isText, type Loss, Losses, type ManifestFormat, type Utterance } from "./common.ts";
import { readKaldi, writeKaldi } from "./kaldi.ts";
import { audioIn, cutOfUtterance, dumpCut, readCuts, type Segments } from "./lhotse.ts";
import { readJson, readNemo } from "./nemo.ts";
import { readShar, type SharAudioFormat, writeShar } from "./shar.ts";
import { readTable, writeTable } from "./table.ts";

export interface ConvertManifestOptions extends ReadLinesOptions {
  from?: ManifestFormat;
  to?: ManifestFormat;
  /** How cuts become lines. */
  segments?: Segments;
  /** Paths of audio in a NeMo manifest or a table. `auto`: relative ones stay relative to where the file lies. */
  paths?: "auto" | "absolute" | "relative" | "keep";
  /** Utterances a shard of Shar. */
  shardSize?: number;
  /** Encoding of audio in Shar. */
  audioFormat?: SharAudioFormat;
  /** Where audio from Shar goes: beside the output by default. */
  audioFolder?: string;
  onProgress?: (utterances: number) => void;
}

export interface ConversionResult {
  from: ManifestFormat;
  to: ManifestFormat;
  utterances: number;
  /** Utterances that could not be converted at all. */
  dropped: number;
  losses: Loss[];
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** @returns the format of what is there, by its name and first line */
export async function detectFormat(path: string): Promise<ManifestFormat> {
  if (isFolder(path)) return existsSync(join(path, "wav.scp")) ? "kaldi" : "shar";
  if (/\.csv(\.gz)?$/i.test(path)) return "csv";
  if (/\.tsv(\.gz)?$/i.test(path)) return "tsv";
  for await (const { value } of readManifestLines([path], { onError: () => {} }))
    return value["supervisions"] !== undefined || (value["recording"] !== undefined && value["audio_filepath"] === undefined) ? "lhotse" : "nemo";
  return "nemo";
}

/** @returns the format that a name asks for */
export function formatOfName(path: string, from: ManifestFormat): ManifestFormat | undefined {
  if (/\.csv(\.gz)?$/i.test(path)) return "csv";
  if (/\.tsv(\.gz)?$/i.test(path)) return "tsv";
  if (/cuts[^/]*\.jsonl(\.gz)?$/i.test(path)) return "lhotse";
  if (path === "-" || /\.jsonl?(\.gz)?$/i.test(path)) return from === "nemo" && path.endsWith(".jsonl.gz") ? "lhotse" : "nemo";
  return undefined;
}

class Converter {
  readonly losses = new Losses();
  private readonly from: ManifestFormat;
  private readonly out: string;
  private readonly options: ConvertManifestOptions;

  constructor(from: ManifestFormat, out: string, options: ConvertManifestOptions) {
    this.from = from;
    this.out = out;
    this.options = options;
  }

  /** @param quiet true for a look ahead, which tells of nothing */
  async *read(inputs: readonly string[], quiet = false): AsyncGenerator<Utterance> {
    const { segments = "cut", onError } = this.options;
    const losses = quiet ? new Losses() : this.losses;
    const reading: ReadLinesOptions = onError ? { onError: quiet ? () => {} : onError } : {};
    for (const input of inputs) {
      switch (this.from) {
        case "nemo":
          yield* readNemo(input, losses, reading);
          break;
        case "json":
          yield* readJson(input, losses);
          break;
        case "lhotse":
          yield* readCuts(input, segments, losses, reading);
          break;
        case "shar":
          yield* readShar(
            input,
            this.options.audioFolder ?? join(dirname(resolve(this.out)), `${basename(this.out).replace(/\.(jsonl?|csv|tsv)(\.gz)?$/, "")}_audio`),
            segments,
            losses,
          );
          break;
        case "kaldi":
          yield* readKaldi(input, losses);
          break;
        default:
          yield* readTable(input, this.from === "csv" ? "," : "\t");
      }
    }
  }

  /** With paths as the target's reader resolves them, and progress. */
  private async *placed(utterances: AsyncIterable<Utterance>): AsyncGenerator<Utterance> {
    for await (const utterance of utterances) {
      this.options.onProgress?.(1);
      const audio = audioIn(utterance.object);
      const { paths = "auto" } = this.options;
      if (audio === undefined || paths === "keep") {
        yield utterance;
        continue;
      }
      const fresh = audio.files.map((file) => this.path(file, utterance.base, paths));
      if (fresh.every((file, i) => file === audio.files[i])) yield utterance;
      else yield { ...utterance, object: new Map(utterance.object).set(audio.key, isText(utterance.object.get(audio.key)) ? (fresh[0] as string) : fresh) };
    }
  }

  private path(file: string, base: string | undefined, style: "auto" | "absolute" | "relative"): string {
    const to = this.out === "-" ? resolve("stdout") : this.out;
    // Shar's audio was written for this manifest: it lies beside it.
    if (this.from === "shar" && style === "auto") return rebasePath(file, "-", to, "relative");
    if (base === undefined) return style === "relative" ? rebasePath(file, "-", to, "relative") : rebasePath(file, "-", to, "absolute");
    return this.out === "-" && style === "auto" ? file : rebasePath(file, base, to, style);
  }

  async write(to: ManifestFormat, inputs: readonly string[]): Promise<number> {
    const { out, losses } = this;
    switch (to) {
      case "nemo":
        return this.lines(this.placed(this.read(inputs)), async ({ object }, writer) => writer.write(object));
      case "lhotse": {
        const ids = new Set<string>();
        return this.lines(this.counted(this.read(inputs)), async (utterance, writer) => {
          const made = await cutOfUtterance(utterance, losses, ids);
          return made === undefined ? undefined : writer.writeText(dumpCut(made.cut));
        });
      }
      case "shar":
        return writeShar(out, this.counted(this.read(inputs)), losses, this.options);
      case "kaldi":
        return writeKaldi(out, this.counted(this.read(inputs)), losses);
      case "json":
        throw new ConfigError("CONFIG_BAD_VALUE", { message: "the format json can only be read", fix: "write nemo: an object on each line" });
      default: {
        const columns = new Set<string>();
        for await (const { object } of this.read(inputs, true)) for (const key of object.keys()) columns.add(key);
        return writeTable(out, to === "csv" ? "," : "\t", [...columns], this.placed(this.read(inputs)), losses);
      }
    }
  }

  private async *counted(utterances: AsyncIterable<Utterance>): AsyncGenerator<Utterance> {
    for await (const utterance of utterances) {
      this.options.onProgress?.(1);
      yield utterance;
    }
  }

  private async lines(utterances: AsyncIterable<Utterance>, write: (utterance: Utterance, writer: ManifestWriter) => Promise<void | undefined>): Promise<number> {
    const writer = new ManifestWriter(this.out);
    try {
      for await (const utterance of utterances) await write(utterance, writer);
      await writer.close();
      return writer.lines;
    } catch (error) {
      writer.abandon();
      throw error;
    }
  }
}

/**
 * Converts. Formats that are not given are told from the first input and from the output's name.
 * @param inputs manifests, or folders of Kaldi and Shar; the same format each
 * @throws ConfigError CONFIG_BAD_VALUE where the format of the output is not clear; ManifestError, FormatError, AudioError
 */
export async function convertManifest(inputs: readonly string[], out: string, options: ConvertManifestOptions = {}): Promise<ConversionResult> {
  return withReplay(
    inputs.flatMap((input) => (isFolder(input) ? [input] : manifestPaths(input))),
    async (paths) => {
      const from = options.from ?? (await detectFormat(paths[0] as string));
      const to = options.to ?? formatOfName(out, from);
      if (to === undefined) throw new ConfigError("CONFIG_BAD_VALUE", { message: `the format of ${out} is not clear from its name`, fix: "give it: --to kaldi or --to shar" });
      const converter = new Converter(from, out, options);
      const utterances = await converter.write(to, paths);
      return { from, to, utterances, dropped: converter.losses.dropped, losses: converter.losses.list() };
    },
  );
}
