/** `serac bins`: NeMo's estimate_duration_bins.py, and with a tokenizer estimate_duration_bins_2d.py. */
import { existsSync, statSync } from "node:fs";
import type { Bins2d, ItemSource, ManifestObject, TokenCounter } from "../data/index.ts";
import { pythonFloat } from "../formats/pythonNumber.ts";
import { ConfigError } from "../util/errors.ts";
import { boolean, integer, number, string, strings } from "../util/options.ts";
import { command } from "./command.ts";
import { showInput } from "./manifestOptions.ts";
import type { Output } from "./output.ts";

/** Tokens of prompts beside the answer and the decoder's context, the end of text included. Sources: NeMo, prompts/canary.py and canary2.py. */
const promptTokens = { canary: 6, canary2: 10 } as const;

/** Python's str(round(value, digits)): ties go to the even digit. */
export function pythonRound(value: number, digits: number): string {
  let text = value.toFixed(digits);
  const exact = value.toFixed(60);
  const tie = /^50*$/.test(exact.slice(exact.indexOf(".") + 1 + digits));
  if (tie && Number(text.at(-1)) % 2 === 1) text = (Number(text) - 10 ** -digits).toFixed(digits);
  return pythonFloat(Number(text));
}

/** Counts the tokens of a text as training would see them. */
interface TextCounter {
  /** Names tokenizers and settings. */
  key: string;
  count(text: string, lang: unknown, context?: unknown): number;
}

async function textCounter(values: {
  tokenizer: readonly string[];
  langs: readonly string[] | undefined;
  textField: string;
  langField: string;
  promptFormat: string | undefined;
  prompt: string | undefined;
}): Promise<TextCounter> {
  const { tokenizer: paths, langs, langField, promptFormat, prompt } = values;
  if (paths.length > 1 && langs?.length !== paths.length)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      message: `${paths.length} tokenizers and ${langs?.length ?? 0} languages`,
      fix: "give --langs with a language for each tokenizer, in their order",
    });
  if (promptFormat !== undefined && !(promptFormat in promptTokens))
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `--prompt-format is ${promptFormat}, expected ${Object.keys(promptTokens).join(" or ")}` });
  const { SentencePiece } = await import("../text/index.ts");
  const { readFileSync } = await import("node:fs");
  const { createHash } = await import("node:crypto");
  const { parse } = await import("yaml");
  const hash = createHash("sha256").update(JSON.stringify(values));
  const models = paths.map((path) => {
    const bytes = readFileSync(path);
    hash.update(bytes);
    return SentencePiece.fromBytes(bytes, path);
  });
  const turns = prompt === undefined ? [] : (parse(prompt) as { role?: string; slots?: Record<string, unknown> }[]);
  const usual = String(turns.find(({ role }) => role === "user")?.slots?.["decodercontext"] ?? "");
  const added = promptFormat === undefined ? 0 : promptTokens[promptFormat as keyof typeof promptTokens];
  const modelOf = (lang: unknown) => {
    if (models.length === 1) return models[0] as (typeof models)[0];
    const model = models[langs?.indexOf(String(lang)) ?? -1];
    if (!model)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        message: `an utterance has "${langField}": ${JSON.stringify(lang)}, and there is no tokenizer for it`,
        fix: "give --langs and a tokenizer for each",
      });
    return model;
  };
  return {
    key: `tokens-${hash.digest("hex").slice(0, 12)}`,
    count(text, lang, context) {
      const model = modelOf(lang);
      const before = typeof context === "string" ? context : usual;
      return model.encode(text).length + added + (promptFormat === "canary2" && before !== "" ? model.encode(before).length : 0);
    },
  };
}

/** What NeMo's scripts take besides a manifest: KEY=VALUE, an input_cfg, a folder of lhotse's Shar, and manifests as a list with weights. */
async function configOf(input: readonly string[]): Promise<Record<string, unknown> | undefined> {
  const [one] = input as [string];
  if (input.length > 1 || existsSync(one) === false) {
    const { parse } = await import("yaml");
    if (one.startsWith("[")) return { manifest_filepath: parse(input.join(" ")) as unknown };
    if (/^\w+=/.test(one)) return Object.fromEntries(input.map((pair) => [pair.slice(0, pair.indexOf("=")), parse(pair.slice(pair.indexOf("=") + 1)) as unknown]));
    return undefined;
  }
  if (/\.ya?ml$/.test(one)) return { input_cfg: one };
  return statSync(one).isDirectory() ? { shar_path: one } : undefined;
}

async function sourceOf(
  input: readonly string[],
  counter: TextCounter | undefined,
  { textField, langField }: { textField: string; langField: string },
  out: Output,
): Promise<ItemSource<unknown>> {
  const { indexedManifest, lazyManifest, openSources } = await import("../data/index.ts");
  const onWarning = (line: string): void => out.say(line);
  const config = await configOf(input);
  if (config) {
    const tokens2d = counter ? { bucket_duration_bins: [[1e9, 1e9]], bucket_batch_size: [1] } : {}; // what makes a source count tokens, without a bound
    const block = { metadata_only: true, force_finite: true, text_field: textField, lang_field: langField, ...tokens2d, ...config };
    return (await openSources(block, { countTokens: counter && ((text, lang) => counter.count(text, lang)), tokensKey: counter?.key, onWarning })).source;
  }
  const tokens: TokenCounter | undefined = counter && {
    key: counter.key,
    count: (value: ManifestObject) => counter.count(typeof value[textField] === "string" ? value[textField] : "", value[langField], value["decodercontext"]),
  };
  const plain = input.every((path) => path !== "-" && !path.endsWith(".gz"));
  return plain ? indexedManifest(input, { tokens, onWarning }) : lazyManifest(input, { tokens });
}

interface Columns {
  durations: Float64Array;
  tokens: Float64Array | undefined;
  read: number;
  outside: number;
}

/** Durations, and tokens, of the utterances within bounds. */
async function columnsOf(source: ItemSource<unknown>, { most, min, max }: { most: number; min: number; max: number }, out: Output): Promise<Columns> {
  const { NumberList } = await import("../util/hash.ts");
  const durations = new NumberList();
  const tokens = new NumberList();
  const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
  const progress = out.progress(source.length === Number.POSITIVE_INFINITY ? undefined : source.length, "utterances", "reading");
  let read = 0;
  let counted = false;
  while (durations.length < most) {
    const block = await stream.read(1024);
    if (!block) break;
    counted = block.tokens !== undefined;
    for (let i = 0; i < block.count && durations.length < most; i++) {
      const duration = block.durations[i] as number;
      read++;
      if (duration < min || duration > max) continue;
      durations.push(duration);
      if (block.tokens) tokens.push(block.tokens[i] as number);
    }
    source.release(block.refs.subarray(0, block.count));
    progress.add(block.count);
  }
  progress.finish();
  await stream.close();
  const outside = read - durations.length;
  return { durations: durations.take(), tokens: counted ? tokens.take() : undefined, read, outside };
}

export const bins = command({
  name: "bins",
  summary: "Estimate duration buckets of equal total length, and with a tokenizer 2-D ones",
  description:
    "NeMo's estimate_duration_bins.py, and with --tokenizer estimate_duration_bins_2d.py.\n" +
    "Without batch sizes for each bucket, bins are inner edges: n of them make n + 1 buckets, the last without end.\n" +
    "With batch sizes they are upper bounds: n of them make n buckets, and longer utterances are left out. Both forms are printed.",
  examples: ["serac bins train.jsonl -b 30", "serac bins train.jsonl -b 10 -l 1 -u 20 --json", "serac bins input_cfg.yaml -b 30", "serac bins train.jsonl -b 10 -s 2 -t bpe.model"],
  positional: { input: { help: "manifests, - for standard input, an input_cfg (.yaml), a folder of lhotse's Shar, or KEY=VALUE of NeMo's configuration", many: true } },
  options: {
    buckets: integer({ short: "b", default: 30, min: 2, help: "number of buckets by duration" }),
    subBuckets: integer({ short: "s", default: 2, min: 1, help: "2-D: number of buckets by tokens within each" }),
    numExamples: integer({ short: "n", default: -1, help: "utterances to look at; -1 is all" }),
    minDuration: number({ short: "l", unit: "seconds", help: "leave out shorter utterances" }),
    maxDuration: number({ short: "u", unit: "seconds", help: "leave out longer utterances" }),
    quiet: boolean({ short: "q", default: false, help: "print the bins alone" }),
    tokenizer: strings({ short: "t", unit: "files", help: "SentencePiece models: makes 2-D bins; several need --langs" }),
    langs: strings({ short: "a", help: "the language of each tokenizer" }),
    textField: string({ default: "text", help: "the key of transcripts" }),
    langField: string({ default: "lang", help: "the key of languages" }),
    tokenOutlierThreshold: number({ default: 4, min: 0, help: "2-D: leave out utterances so many standard deviations above their bucket's tokens a second" }),
    promptFormat: string({ short: "f", help: "2-D: count the tokens of a prompt too: canary or canary2" }),
    prompt: string({ short: "p", help: "2-D: slots of the prompt, as [{'role': 'user', 'slots': {...}}]" }),
    maxTps: number({ hidden: true, help: "ignored, as in NeMo: it follows from the data" }),
  },
  async run({ input, tokenizer, buckets, subBuckets, numExamples, minDuration, maxDuration, quiet, tokenOutlierThreshold, maxTps, ...text }, out) {
    const { estimateDurationBins, estimateDurationBins2d } = await import("../data/index.ts");
    if (maxTps !== undefined) out.say("--max-tps has no effect: the most tokens a second follow from the data, bucket by bucket");
    const source = await sourceOf(input, tokenizer && (await textCounter({ tokenizer, ...text })), text, out);
    const min = minDuration ?? 0;
    const max = maxDuration ?? Number.POSITIVE_INFINITY;
    const columns = await columnsOf(source, { most: numExamples < 0 ? Number.POSITIVE_INFINITY : numExamples, min, max }, out);
    const { durations, outside, read } = columns;
    if (durations.length < buckets)
      throw new ConfigError("SAMPLER_BINS", {
        at: source.name,
        message: `${buckets} buckets for ${durations.length} utterances`,
        fix: "ask for fewer buckets, or widen the bounds",
      });
    const note = outside > 0 ? `Note: we discarded ${outside}/${read} (${((100 * outside) / read).toFixed(2)}%) utterances due to min/max duration filtering.` : undefined;
    const longest = durations.reduce((most, duration) => Math.max(most, duration), 0);
    if (columns.tokens) print2d(estimateDurationBins2d(durations, columns.tokens, { buckets, subBuckets, maxDuration: max, outlierThreshold: tokenOutlierThreshold }));
    else print1d(estimateDurationBins(durations, buckets));
    return 0;

    function print1d(edges: readonly number[]): void {
      const list = edges.map((edge) => pythonRound(edge, 5));
      const rounded = pythonRound(longest, 5);
      const bound = Number(rounded) < longest ? pythonRound(longest + 1e-5, 5) : rounded;
      if (out.json) {
        out.print(
          JSON.stringify({
            num_buckets: buckets,
            bucket_duration_bins: list.map(Number),
            max_duration: longest,
            upper_bounds: [...list.map(Number), Number(bound)],
            examples: durations.length,
            discarded: outside,
          }),
        );
        return;
      }
      const joined = `[${list.join(",")}]`;
      if (quiet) {
        out.print(joined);
        return;
      }
      if (note) out.print(note);
      out.print(`Used ${durations.length} examples for the estimation.`);
      out.print("Use the following options in your config:");
      out.print(`\tnum_buckets=${buckets}`);
      out.print(`\tbucket_duration_bins=${joined}`);
      out.print(`\tmax_duration=${pythonRound(longest, 5)}`);
      out.say(
        `${edges.length} inner edges, for ${edges.length + 1} buckets of batch_duration. With bucket_batch_size bins are upper bounds, one for each batch size:\n\tbucket_duration_bins=[${[...list, bound].join(",")}]`,
      );
      if (edges.length < buckets - 1) out.say(`${buckets - 1 - edges.length} fewer than asked for: a few long utterances fill whole buckets`);
      out.next(`serac manifest stats ${showInput(input)}`);
    }

    function print2d({ bins: pairs, maxTps: rates, outliers }: Bins2d): void {
      if (out.json) {
        out.print(JSON.stringify({ num_buckets: buckets, bucket_duration_bins: pairs, max_tps: rates, examples: durations.length, discarded: outside, outliers }));
        return;
      }
      const joined = `[${pairs.map(([duration, count]) => `[${duration.toFixed(3)},${count}]`).join(",")}]`;
      if (!quiet && note) out.print(note);
      out.print("Use the following options in your config:");
      out.print("\tuse_bucketing=1");
      out.print(`\tnum_buckets=${buckets}`);
      out.print(`\tbucket_duration_bins=${joined}`);
      out.print("The max_tps setting below is optional, use it if your data has low quality long transcript outliers:");
      out.print(`\tmax_tps=[${rates.map((rate) => rate.toFixed(2)).join(",")}]`);
      if (quiet) return;
      out.say(`${pairs.length} upper bounds: give bucket_batch_size as many batch sizes. ${outliers} utterances have far more tokens than others of their length.`);
    }
  },
});
