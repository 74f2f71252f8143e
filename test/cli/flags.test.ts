import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commands } from "../../src/cli/main.ts";
import { canonicalName, flagOf, parseOptions, type Schema } from "../../src/cli/options.ts";
import { modelOptions } from "../../src/models/options.ts";
import { packageRoot } from "../../src/util/paths.ts";

/** Flags of icefall's zipformer/train.py with their defaults: all of them. */
const trainPy = `num-encoder-layers 2,2,3,4,3,2; downsampling-factor 1,2,4,8,4,2; feedforward-dim 512,768,1024,1536,1024,768; num-heads 4,4,4,8,4,4;
encoder-dim 192,256,384,512,384,256; query-head-dim 32; value-head-dim 12; pos-head-dim 4; pos-dim 48; encoder-unmasked-dim 192,192,256,256,256,192;
cnn-module-kernel 31,31,15,15,15,31; decoder-dim 512; joiner-dim 512; attention-decoder-dim 512; attention-decoder-num-layers 6;
attention-decoder-attention-dim 512; attention-decoder-num-heads 8; attention-decoder-feedforward-dim 2048; causal false; chunk-size 16,32,64,-1;
left-context-frames 64,128,256,-1; use-transducer true; use-ctc false; use-attention-decoder false; use-cr-ctc false; world-size 1; master-port 12354;
tensorboard true; num-epochs 30; start-epoch 1; start-batch 0; exp-dir zipformer/exp; bpe-model data/lang_bpe_500/bpe.model; base-lr 0.045;
lr-batches 7500; lr-epochs 3.5; ref-duration 600; context-size 2; prune-range 5; lm-scale 0.25; am-scale 0; simple-loss-scale 0.5; ctc-loss-scale 0.2;
cr-loss-scale 0.2; time-mask-ratio 2.5; attention-decoder-loss-scale 0.8; seed 42; print-diagnostics false; inf-check false; save-every-n 4000;
keep-last-k 30; average-period 200; use-fp16 false; use-bf16 false`;

/** Flags of icefall's asr_datamodule.py with their defaults: all of them. */
const dataModulePy = `full-libri true; mini-libri false; manifest-dir data/fbank; max-duration 200; bucketing-sampler true; num-buckets 30; concatenate-cuts false;
duration-factor 1; gap 1; on-the-fly-feats false; shuffle true; drop-last true; return-cuts true; num-workers 2; enable-spec-aug true;
spec-aug-time-warp-factor 80; enable-musan true; input-strategy PrecomputedFeatures`;

/** What train.py fixes in get_params and serac has flags for. */
const constants = "log-interval 50; reset-interval 200; valid-interval 3000; feature-dim 80; label-smoothing 0.1; warm-step 2000";

const flagsOf = (list: string): [flag: string, value: string][] => list.split(";").map((pair) => pair.trim().split(/\s+/) as [string, string]);

test("train has icefall's flags, with icefall's defaults", async () => {
  const { options } = (await commands["train"]?.load()) ?? { options: {} };
  const defaults = parseOptions(options, { trainManifest: "train.jsonl" }) as Record<string, unknown>;
  for (const [flag, value] of [trainPy, dataModulePy, constants].flatMap(flagsOf)) {
    const name = canonicalName(flag);
    expect(Object.keys(options), flag).toContain(name);
    expect(String(defaults[name]), flag).toBe(value);
  }
});

test("every flag of icefall's train.py and asr_datamodule.py has its row in COMPATIBILITY.md, and is taken with dashes and underscores", async () => {
  const rows = readFileSync(join(packageRoot, "COMPATIBILITY.md"), "utf8");
  const section = (title: string): string => rows.split(/^## /m).find((text) => text.startsWith(`icefall: ${title}`)) ?? "";
  const train = await commands["train"]?.load();
  expect([flagsOf(trainPy).length, flagsOf(dataModulePy).length]).toEqual([54, 18]);
  for (const [title, list] of [
    ["zipformer/train.py", trainPy],
    ["asr_datamodule.py", dataModulePy],
  ] as const)
    for (const [flag, value] of flagsOf(list)) {
      expect(section(title), flag).toContain(`\n| \`train --${flag}\` |`);
      const name = canonicalName(flag);
      for (const spelling of [flag, flag.replaceAll("-", "_")]) {
        expect(String(train?.parse([`--${spelling}`, value])?.values[name]), spelling).toBe(value);
      }
    }
});

test("flags that are on or off are on alone, and by any of the words that icefall takes", async () => {
  const train = await commands["train"]?.load();
  const value = (...words: string[]): unknown => train?.parse(words)?.values["useFp16"];
  for (const words of [["--use-fp16"], ["--use-fp16", "1"], ["--use_fp16", "True"], ["--use-fp16=yes"], ["--use-fp16", "t"], ["--use-fp16", "y"]])
    expect(value(...words), words.join(" ")).toBe(true);
  for (const words of [["--use-fp16", "0"], ["--use-fp16", "False"], ["--use-fp16=no"], ["--use-fp16", "f"], ["--use-fp16", "n"], []])
    expect(value(...words), words.join(" ")).toBe(false);
});

/** What the table says of a command's flags: `train --spec-aug-*` is of all that begin so. */
function rowsOf(command: string): (flag: string) => boolean {
  const named = [...readFileSync(join(packageRoot, "COMPATIBILITY.md"), "utf8").matchAll(new RegExp(`^\\| \`${command} ([^\`]*)\` \\|`, "gm"))].flatMap(
    ([, text]) => (text as string).match(/--[\w-]+\*?/g) ?? [],
  );
  return (flag) => named.some((one) => (one.endsWith("*") ? flag.startsWith(one.slice(0, -1)) : flag === one));
}

test.each(["train", "finetune", "decode"])("every flag of serac %s has its row in COMPATIBILITY.md", async (name) => {
  const options: Schema = (await commands[name]?.load())?.options ?? {};
  const own = rowsOf(name);
  const ofTrain = rowsOf("train");
  const ofStreaming = rowsOf("streaming_decode");
  const shape = Object.keys(modelOptions).map(flagOf);
  const flags = Object.entries(options).flatMap(([option, { hidden }]) => (hidden ? [] : [flagOf(option)]));
  // Finetune takes train's flags, decode those of streaming_decode.py and of a model's shape.
  const has = (flag: string): boolean =>
    own(flag) || (name === "finetune" && ofTrain(flag)) || (name === "decode" && (ofStreaming(flag) || (shape.includes(flag) && ofTrain(flag))));
  expect(flags.filter((flag) => !has(flag))).toEqual([]);
});

test("time warping is off below 1, as in icefall", async () => {
  const train = await commands["train"]?.load();
  expect(train?.parse(["--spec-aug-time-warp-factor", "-1"])?.values["specAugTimeWarpFactor"]).toBe(-1);
});

test("decode has icefall's flags, with icefall's defaults where the model is not chosen by them", async () => {
  const { options } = (await commands["decode"]?.load()) ?? { options: {} };
  const defaults = parseOptions(options, { manifest: "test.jsonl" });
  expect(defaults).toMatchObject({ expDir: "zipformer/exp", useAveragedModel: true, maxDuration: 200, epoch: 0, avg: 1 });
});

test("a value given for a flag reaches the options under its name", async () => {
  const train = await commands["train"]?.load();
  const parsed = train?.parse(["--train-manifest", "a.jsonl,b.jsonl", "--num_encoder_layers", "1,1", "--use-ctc", "1", "--base-lr=0.02", "--max-duration", "60"]);
  expect(parsed?.values).toMatchObject({ trainManifest: ["a.jsonl", "b.jsonl"], numEncoderLayers: [1, 1], useCtc: true, baseLr: 0.02, maxDuration: 60 });
  const nemo = train?.parse(["--train-ds", "nemo.yaml", "train_ds.batch_duration=300", "validation_ds.batch_size=4"]);
  expect(nemo?.values).toMatchObject({ trainDs: "nemo.yaml", overrides: ["train_ds.batch_duration=300", "validation_ds.batch_size=4"] });
});
