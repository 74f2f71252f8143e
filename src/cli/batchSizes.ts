import { trainOptions } from "../train/options.ts";
import { ConfigError } from "../util/errors.ts";
import { boolean, choice, integer, number, path, type Schema, string } from "../util/options.ts";
import { showBytes } from "../util/progress.ts";
import { command } from "./command.ts";

/** Options of training that a step's memory depends on. */
const stepOptions = Object.fromEntries(
  Object.entries(trainOptions).filter(([name, { group }]) => group === "Model" || group === "Loss" || ["sampleRate", "device", "threads", "seed"].includes(name)),
) as Schema;

/** `serac batch-sizes`: NeMo's OOMptimizer. */
export const batchSizes = command({
  name: "batch-sizes",
  summary: "Find the largest batch size of each bucket that fits into memory",
  description:
    "NeMo's OOMptimizer: trains on made-up batches, the longest bucket first, and prints bucket_duration_bins and bucket_batch_size for a train_ds.\n" +
    "Buckets are upper bounds, the last one included; nested ones are seconds and tokens. On a CPU memory is what tensors hold.",
  examples: [
    "serac batch-sizes -b '[5,10,15,20,25,30]' --bpe-model data/lang_bpe_500/bpe.model --device cuda --dtype bfloat16",
    "serac batch-sizes -b '[[5,30],[5,60],[10,60],[10,120]]' --memory-limit 8G --use-ctc 1",
    "serac batch-sizes -b '[4,8,16]' --checkpoint exp/epoch-30.pt --json",
  ],
  options: {
    buckets: string({ short: "b", default: "[5,10,15,20,25,30]", unit: "list", help: "upper bounds, seconds; or pairs of seconds and tokens" }),
    threshold: number({ short: "t", default: 0.05, min: 0, max: 0.99, help: "ends a bucket's search at this gap between what fits and what does not" }),
    startBatchSize: integer({ short: "s", default: 32, min: 1, help: "first batch size to try" }),
    ratio: number({ short: "r", default: 12, min: 0.01, help: "output tokens a second, for buckets of seconds alone" }),
    memoryFraction: number({ short: "f", default: 0.9, min: 0.01, max: 1, help: "share of the device's memory to use" }),
    memoryLimit: string({ unit: "bytes", help: "memory to use instead of a share: 16G, 500M" }),
    dtype: choice(["float32", "bfloat16"], { short: "y", default: "float32", help: "of mixed precision; float32 is none" }),
    steps: integer({ default: 3, min: 1, help: "steps of a try, all of which have to fit: what a step needs varies by chance" }),
    ddp: boolean({ default: false, help: "leave room for a second copy of the parameters, as several processes need" }),
    checkpoint: path({ short: "n", help: "take the model's shape from a checkpoint" }),
    bpeModel: path({ help: "SentencePiece model that tells the size of the vocabulary" }),
    vocabSize: integer({ default: 500, min: 3, help: "size of the vocabulary, where neither tells it" }),
    ...stepOptions,
  },
  async run(values, out) {
    const { buckets: text, threshold, startBatchSize, ratio, memoryFraction, memoryLimit, dtype, steps, ddp, checkpoint, bpeModel, vocabSize, ...rest } = values;
    const { parse } = await import("yaml");
    const { parseOptions } = await import("../util/options.ts");
    const { checkTrainOptions } = await import("../train/options.ts");
    const { findBatchSizes, mergeBuckets, showBucket } = await import("../train/batchSizes/search.ts");
    const { boundMemory, deviceMemory, readBytes } = await import("../train/batchSizes/memory.ts");
    const { TrialStep } = await import("../train/batchSizes/trialStep.ts");
    const { modelOptions, openCheckpoint, readTokenizer } = await import("../models/index.ts");
    const { checkDevice, setThreads } = await import("../torch/index.ts");
    const { SentencePiece } = await import("../text/index.ts");
    type Bucket = Parameters<typeof showBucket>[0];

    const options = checkTrainOptions(parseOptions(trainOptions, { ...rest, useBf16: dtype === "bfloat16" }));
    checkDevice(options.device);
    if (options.threads > 0) setThreads(options.threads);
    const buckets = bucketsOf(text, parse);
    const limit = memoryLimit === undefined ? Math.floor(memoryFraction * deviceMemory(options.device)) : readBytes(memoryLimit);
    if (limit === undefined) throw new ConfigError("CONFIG_BAD_VALUE", { message: `--memory-limit is "${memoryLimit}", expected bytes, as 16000000000, 16G or 500M` });
    let config = {
      ...parseOptions(modelOptions, Object.fromEntries(Object.keys(modelOptions).map((name) => [name, options[name as keyof typeof options]]))),
      vocabSize: bpeModel === undefined ? vocabSize : SentencePiece.fromBytes(readTokenizer(bpeModel), bpeModel).vocabSize,
      blankId: 0,
      sampleRate: options.sampleRate,
    };
    if (checkpoint !== undefined) {
      const file = openCheckpoint(checkpoint, { bpeModel });
      config = file.config;
      file.close();
    }
    const lift = boundMemory(options.device, limit);
    let trial: InstanceType<typeof TrialStep> | undefined;
    try {
      const step = (trial = new TrialStep({ config, options, ratio, steps, ddp }));
      out.say(`searching within ${showBytes(limit)}${options.device === "cpu" ? " of tensors" : ""}, ${dtype}${ddp ? ", with room for a second copy of the parameters" : ""}`);
      let told: Bucket | undefined;
      const found = await findBatchSizes(
        buckets,
        { startBatchSize, threshold },
        async (bucket, size) => {
          if (bucket !== told) {
            const { frames, tokens } = step.shapeOf(bucket);
            out.say(`bucket ${showBucket(bucket)}: ${frames} frames, ${tokens} tokens`);
            told = bucket;
          }
          await new Promise((resume) => setImmediate(resume)); // Ctrl-C is only seen when the event loop turns
          return step.fits(bucket, size);
        },
        (_, size, fitted, gap) =>
          out.say(
            `  ${size} ${fitted ? "fits" : "does not fit"}${options.device === "cpu" ? ` (${showBytes(step.peak)})` : ""}${gap === undefined ? "" : `, gap ${(100 * gap).toFixed(1)} %`}`,
          ),
      );
      for (const { bucket, batchSize } of found) out.say(`bucket ${showBucket(bucket)}: ${batchSize}`);
      const merged = mergeBuckets(found);
      if (merged.length < found.length) out.say(`${found.length - merged.length} buckets have the batch size of a longer one, and are joined with it`);
      const bins = `[${merged.map(({ bucket }) => (typeof bucket === "number" ? String(bucket) : `[${bucket.join(",")}]`)).join(",")}]`;
      const sizes = `[${merged.map(({ batchSize }) => batchSize).join(",")}]`;
      if (out.json) {
        out.print(
          JSON.stringify({
            bucket_duration_bins: merged.map(({ bucket }) => bucket),
            bucket_batch_size: merged.map(({ batchSize }) => batchSize),
            memory_limit: limit,
            buckets: found,
          }),
        );
        return 0;
      }
      out.print("The final profile is:");
      out.print(`\tbucket_duration_bins=${bins}`);
      out.print(`\tbucket_batch_size=${sizes}`);
      out.say("Bins are upper bounds: longer utterances are left out.");
      out.next(`serac train --train-ds train.yaml 'train_ds.bucket_duration_bins=${bins}' 'train_ds.bucket_batch_size=${sizes}'`);
      return 0;
    } finally {
      trial?.dispose();
      lift();
    }
  },
});

/** The list of buckets of a text. @throws ConfigError CONFIG_BAD_VALUE */
function bucketsOf(text: string, parse: (text: string) => unknown): (number | [number, number])[] {
  let value: unknown;
  try {
    value = parse(text.startsWith("[") ? text : `[${text}]`);
  } catch {
    value = undefined;
  }
  const isBucket = (item: unknown): item is number | [number, number] =>
    typeof item === "number" || (Array.isArray(item) && item.length === 2 && item.every((part) => typeof part === "number"));
  if (Array.isArray(value) && value.every(isBucket)) return value;
  throw new ConfigError("CONFIG_BAD_VALUE", { message: `--buckets is ${text}, expected numbers, or pairs of seconds and tokens, as [5,10,20] or [[5,30],[10,60]]` });
}
