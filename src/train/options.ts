/** Options of training: icefall's flags (zipformer/train.py and asr_datamodule.py), its hidden constants, and a few of ours. */
import { modelOptions } from "../models/options.ts";
import { ConfigError } from "../util/errors.ts";
import { boolean, choice, integer, number, type Options, type OptionsInput, path, type Schema } from "../util/options.ts";
import { dataOptions } from "./dataOptions.ts";

const world = "Run";
const schedule = "Schedule";
const loss = "Loss";

export const trainOptions = {
  ...dataOptions,

  config: path({ group: world, unit: "file", help: "YAML file of these options, by their names; what is given beside it counts more" }),
  expDir: path({ default: "zipformer/exp", group: world, help: "folder of checkpoints and logs" }),
  numEpochs: integer({ default: 30, min: 1, group: world, help: "epochs to train" }),
  startEpoch: integer({ default: 1, min: 1, group: world, help: "resume after epoch N - 1" }),
  startBatch: integer({ default: 0, min: 0, group: world, help: "resume from checkpoint-N, in the middle of its epoch" }),
  maxSteps: integer({ default: 0, min: 0, group: world, help: "stop after so many batches; 0 is no limit" }),
  seed: integer({ default: 42, min: 0, group: world, help: "seeds weights, order, masks" }),
  device: choice(["cpu", "cuda"], { default: "cpu", group: world, help: "where to train" }),
  threads: integer({ default: 0, min: 0, group: world, help: "threads of operators; 0 leaves libtorch's choice" }),
  replicas: integer({ default: 1, min: 1, group: world, help: "threads that each compute a part of every batch, with a share of --threads; CPU only" }),
  useBf16: boolean({ default: false, group: world, help: "mixed precision with bfloat16" }),
  useFp16: boolean({ default: false, group: world, help: "mixed precision with float16, and a scale on the loss; CUDA only" }),
  accumGrad: integer({ default: 1, min: 1, group: world, unit: "batches", help: "update the parameters once for so many batches" }),
  tensorboard: boolean({ default: true, group: world, help: "write an event file to EXP-DIR/tensorboard" }),
  infCheck: boolean({ default: false, group: world, help: "say which outputs and gradients are not finite; slow" }),
  printDiagnostics: boolean({ default: false, group: world, help: "print statistics of outputs, gradients and parameters over 6 batches, and end" }),
  scanForOomBatches: boolean({
    default: true,
    group: world,
    help: "before training, try the batches of an epoch that are likeliest to exhaust memory; nothing is learnt from them",
  }),
  maxBadBatches: integer({
    default: 10,
    min: 1,
    group: world,
    help: "end when loss or gradients of so many batches in a row are not finite; fewer are left out, named and counted",
  }),
  worldSize: integer({ default: 1, min: 1, group: world, help: "processes that train together; only 1 is there" }),
  masterPort: integer({ default: 12354, min: 1, max: 65535, group: world, help: "port by which processes find each other" }),
  saveEveryN: integer({ default: 4000, min: 1, group: world, unit: "batches", help: "save checkpoint-B so often" }),
  keepLastK: integer({ default: 30, min: 1, group: world, help: "checkpoint-B files to keep" }),
  averagePeriod: integer({ default: 200, min: 1, group: world, unit: "updates", help: "how often the running average takes the model in" }),
  validInterval: integer({
    default: 3000,
    min: 1,
    group: world,
    unit: "batches",
    help: "validate after the first batch of training, after so many again, and at the end of every epoch",
  }),
  werInterval: integer({ default: 5, min: 0, group: world, unit: "epochs", help: "print the validation word error rate so often; 0 is never" }),
  logInterval: integer({ default: 50, min: 1, group: world, unit: "batches", help: "log the loss so often" }),
  resetInterval: integer({ default: 200, min: 1, group: world, unit: "batches", help: "memory of the average loss that is shown" }),

  baseLr: number({ default: 0.045, min: 0, group: schedule, help: "learning rate before the schedule" }),
  lrBatches: number({ default: 7500, min: 1, group: schedule, help: "Eden: updates after which the rate falls" }),
  lrEpochs: number({ default: 3.5, min: 0.01, group: schedule, help: "Eden: epochs after which the rate falls" }),
  warmStep: integer({ default: 2000, min: 1, group: schedule, unit: "updates", help: "warm-up of the losses" }),
  refDuration: number({ default: 600, min: 0.001, group: schedule, unit: "seconds", help: "batch duration for which schedules of regularisers are meant" }),
  batchCountOffset: integer({ default: 0, min: 0, group: schedule, hidden: true, help: "added to the batch count that schedules of regularisers follow" }),
  recipe: choice(["seed", "2026"], {
    default: "seed",
    group: schedule,
    help: "whose details to follow: an earlier train.py, or that of June 2026 (Eden's warm-up starts at 0.1, CR loss warms up, two frames more than tokens are needed)",
  }),

  pruneRange: integer({ default: 5, min: 2, group: loss, help: "symbols per frame that the pruned loss looks at" }),
  lmScale: number({ default: 0.25, min: 0, max: 1, group: loss, help: "share of the decoder-only term in the simple loss" }),
  amScale: number({ default: 0, min: 0, max: 1, group: loss, help: "share of the encoder-only term in the simple loss" }),
  simpleLossScale: number({ default: 0.5, min: 0, group: loss, help: "weight of the simple loss after warm-up" }),
  ctcLossScale: number({ default: 0.2, min: 0, group: loss, help: "weight of the CTC loss" }),
  useCrCtc: boolean({ default: false, group: loss, help: "train on two differently masked copies of each batch, whose CTC outputs shall agree (CR-CTC)" }),
  crLossScale: number({ default: 0.2, min: 0, group: loss, help: "weight of the consistency of both copies" }),
  timeMaskRatio: number({ default: 2.5, min: 0, group: loss, help: "CR-CTC: time masks, as a multiple of the usual number and share" }),
  attentionDecoderLossScale: number({ default: 0.8, min: 0, group: loss, help: "weight of the attention decoder's loss" }),
  labelSmoothing: number({ default: 0.1, min: 0, max: 1, group: loss, help: "label smoothing of the attention decoder" }),

  ...modelOptions,
} satisfies Schema;

/** Checked options of training. */
export type TrainOptions = Options<typeof trainOptions>;
/** What a caller gives: everything with a default may be left out. */
export type TrainOptionsInput = OptionsInput<typeof trainOptions>;

const refuse = (message: string, fix?: string): never => {
  throw new ConfigError("CONFIG_BAD_VALUE", { message, fix });
};

/**
 * Rules that span several options; returns the options with what follows from them.
 * Source: icefall zipformer/train.py.
 * @throws ConfigError CONFIG_BAD_VALUE
 */
export function checkTrainOptions(options: TrainOptions): TrainOptions {
  const { useTransducer, useCtc, useAttentionDecoder, ctcLossScale, attentionDecoderLossScale } = options;
  if (!useTransducer && !useCtc) refuse("neither --use-transducer nor --use-ctc is on", "turn one of them on");
  if (options.worldSize > 1) refuse(`--world-size ${options.worldSize}: several processes are not built yet`, "leave it out; --replicas N trains on N threads of one CPU");
  if (options.useFp16 && options.useBf16) refuse("--use-fp16 and --use-bf16 are both on", "choose one of them");
  if (options.useFp16 && options.device === "cpu") refuse("--use-fp16 is for --device cuda: libtorch's matrix products refuse float16 on the CPU", "use --use-bf16");
  if (options.useCrCtc && !useCtc) refuse("--use-cr-ctc needs --use-ctc 1");
  if (options.useCrCtc && options.enableSpecAug) refuse("--use-cr-ctc masks each copy by itself", "add --enable-spec-aug 0");
  if (options.saveEveryN < options.averagePeriod) refuse(`--save-every-n is ${options.saveEveryN}, expected --average-period (${options.averagePeriod}) or more`);
  if (options.startBatch === 0 && options.startEpoch > options.numEpochs)
    refuse(
      `--start-epoch ${options.startEpoch} is behind the last epoch, --num-epochs ${options.numEpochs}: there is nothing to train`,
      `give --num-epochs ${options.startEpoch} or more`,
    );
  if (options.inputStrategy === "AudioSamples") refuse("--input-strategy AudioSamples gives samples, and the model takes features", "leave it out, or give OnTheFlyFeatures");
  if (options.noiseSnr.length > 2) refuse(`--noise-snr has ${options.noiseSnr.length} numbers, expected a ratio, or the lowest and the highest`);
  if (options.minUtterance > options.maxUtterance) refuse(`--min-utterance ${options.minUtterance} is above --max-utterance ${options.maxUtterance}`);
  if (options.replicas > 1 && options.device !== "cpu") refuse(`--replicas ${options.replicas} is for --device cpu`, "leave it out");
  if (useTransducer) return options;
  if (!useAttentionDecoder) return { ...options, ctcLossScale: 1 };
  if (Math.abs(ctcLossScale + attentionDecoderLossScale - 1) > 1e-9)
    refuse(`without a transducer --ctc-loss-scale (${ctcLossScale}) and --attention-decoder-loss-scale (${attentionDecoderLossScale}) must sum to 1`);
  return options;
}
