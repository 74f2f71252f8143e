/** Options of what training reads: those of icefall's asr_datamodule.py under their names, manifests and blocks of NeMo's, and augmentation. */
import { ConfigError } from "../util/errors.ts";
import { boolean, choice, flagOf, integer, number, numbers, type Option, path, type Schema, strings } from "../util/options.ts";

const data = "Data";
const batches = "Batches";
const augmentation = "Augmentation";

/** A NeMo block: the path of a YAML file, or its keys. */
export type BlockSpec = string | Readonly<Record<string, unknown>>;

const block = (help: string): Option<BlockSpec | undefined> => ({
  help,
  group: data,
  unit: "file",
  kind: "path",
  accepts: "a YAML file, or an object of keys",
  read: (raw) => ((typeof raw === "string" && raw !== "") || (typeof raw === "object" && raw !== null && !Array.isArray(raw)) ? (raw as BlockSpec) : undefined),
});

export const dataOptions = {
  trainManifest: strings({ group: data, unit: "files", help: "NeMo manifests to train on" }),
  validManifest: strings({ group: data, unit: "files", help: "NeMo manifests to validate on" }),
  trainTarredAudioFilepaths: strings({ group: data, unit: "tars", help: "tars that hold the audio of --train-manifest: audio__OP_0..63_CL_.tar" }),
  validTarredAudioFilepaths: strings({ group: data, unit: "tars", help: "tars that hold the audio of --valid-manifest" }),
  trainDs: block("train on what NeMo's train_ds names there; an input_cfg will do"),
  validationDs: block("validate on what NeMo's validation_ds names there"),
  overrides: strings({ group: data, hidden: true, help: "train_ds.KEY=VALUE and validation_ds.KEY=VALUE" }),
  manifestDir: path({ default: "data/fbank", group: data, help: "train on the cuts that serac prepare, or icefall's recipe, made there; used where no other data is named" }),
  fullLibri: boolean({ default: true, group: data, help: "of --manifest-dir, all of LibriSpeech (train-all-shuf); else train-clean-100" }),
  miniLibri: boolean({ default: false, group: data, help: "of --manifest-dir, Mini LibriSpeech (train-clean-5, dev-clean-2)" }),
  onTheFlyFeats: boolean({ default: false, group: data, help: "compute features from audio although they are stored" }),
  inputStrategy: choice(["PrecomputedFeatures", "OnTheFlyFeatures", "AudioSamples"], {
    default: "PrecomputedFeatures",
    group: data,
    help: "stored features where there are some, or none: OnTheFlyFeatures is --on-the-fly-feats 1",
  }),
  returnCuts: boolean({ default: true, group: data, help: "changes nothing: batches always know their cuts" }),
  bpeModel: path({ default: "data/lang_bpe_500/bpe.model", group: data, help: "SentencePiece model, from: serac bpe train" }),
  sampleRate: integer({ default: 16000, min: 1000, group: data, unit: "Hz", help: "rate of the features; other audio is resampled" }),
  minUtterance: number({ default: 1, min: 0, group: data, unit: "seconds", help: "leave out shorter utterances of the training data" }),
  maxUtterance: number({ default: 20, min: 0, group: data, unit: "seconds", help: "leave out longer utterances of the training data" }),
  onBad: choice(["throw", "skip", "warn"], {
    default: "skip",
    group: data,
    help: "lines and audio that cannot be read or are damaged: end, leave out and count, or say each as well. What filters leave out (too short, too long, too many tokens) is never bad: it is counted",
  }),
  numWorkers: integer({ default: 2, min: 0, max: 64, group: data, help: "threads that prepare batches ahead; 0 is none. What is in a batch does not depend on it" }),

  maxDuration: number({ default: 200, min: 0.1, group: batches, unit: "seconds", help: "padded audio in a batch" }),
  bucketingSampler: boolean({ default: true, group: batches, help: "batches of like duration; else of any" }),
  numBuckets: integer({ default: 30, min: 1, group: batches, help: "groups of like duration that batches are made of" }),
  shuffle: boolean({ default: true, group: batches, help: "another order each epoch" }),
  dropLast: boolean({ default: true, group: batches, help: "leave out the batches of an epoch that are not full" }),
  limitTrainBatches: integer({ default: 0, min: 0, group: batches, help: "batches of an epoch at most; 0 is no limit. A source without end needs it" }),

  concatenateCuts: boolean({ default: false, group: augmentation, help: "append the short utterances of a batch to its longer ones" }),
  durationFactor: number({ default: 1, min: 1, group: augmentation, help: "how long a joined utterance may be, times the longest of its batch" }),
  gap: number({ default: 1, min: 0, group: augmentation, unit: "seconds", help: "silence between joined utterances" }),
  speedPerturb: boolean({ default: false, group: augmentation, help: "play each utterance at 0.9, 1 or 1.1 times its speed, drawn each epoch" }),
  enableMusan: boolean({ default: true, group: augmentation, help: "mix in noise: of --noise-path, or MUSAN's cuts in --manifest-dir" }),
  noisePath: path({ group: augmentation, help: "noise: a folder of audio, or a manifest of cuts, recordings or utterances" }),
  noiseSnr: numbers({ default: [10, 20], group: augmentation, unit: "dB", help: "signal to noise ratio, or the range it is drawn from" }),
  noiseMixProb: number({ default: 0.5, min: 0, max: 1, group: augmentation, help: "probability of an utterance to have noise" }),
  rirEnabled: boolean({ default: false, group: augmentation, help: "convolve utterances with impulse responses of rooms" }),
  rirPath: path({ group: augmentation, help: "impulse responses: a folder, or a manifest; rooms are made up without it" }),
  rirProb: number({ default: 0.5, min: 0, max: 1, group: augmentation, help: "probability of an utterance to be convolved" }),
  enableSpecAug: boolean({ default: true, group: augmentation, help: "warp in time, mask stretches of time and frequency" }),
  specAugTimeWarpFactor: integer({ default: 80, group: augmentation, help: "most frames that time warping moves; below 1 it is off" }),
  specAugNumFrameMasks: integer({ default: 10, min: 0, group: augmentation, help: "time masks of an utterance at most" }),
  specAugFramesMaskSize: integer({ default: 100, min: 0, group: augmentation, help: "frames that a mask covers at most" }),
  specAugMaxFramesMaskFraction: number({ default: 0.15, min: 0, max: 1, group: augmentation, help: "share of the frames that is masked at most" }),
  specAugNumFeatureMasks: integer({ default: 2, min: 0, group: augmentation, help: "frequency masks of an utterance" }),
  specAugFeaturesMaskSize: integer({ default: 27, min: 0, group: augmentation, help: "mel bins that a mask covers at most" }),
  specAugP: number({ default: 0.9, min: 0, max: 1, group: augmentation, help: "probability of an utterance to be warped, and again to be masked" }),
} satisfies Schema;

/** Flags that a NeMo block has keys for. Beside a block they would say the same thing twice. */
const keyOfFlag: Readonly<Record<string, string>> = {
  maxDuration: "batch_duration",
  numBuckets: "num_buckets",
  bucketingSampler: "use_bucketing",
  shuffle: "shuffle",
  dropLast: "drop_last",
  minUtterance: "min_duration",
  maxUtterance: "max_duration",
  concatenateCuts: "concatenate_samples",
  durationFactor: "concatenate_duration_factor",
  gap: "concatenate_gap_seconds",
  noisePath: "noise_path",
  noiseSnr: "noise_snr",
  noiseMixProb: "noise_mix_prob",
  rirEnabled: "rir_enabled",
  rirPath: "rir_path",
  rirProb: "rir_prob",
};

/**
 * Flags that go together with a train_ds block.
 * @param given names of the options that were given
 * @throws ConfigError CONFIG_BAD_VALUE
 */
export function checkBesideBlock(given: ReadonlySet<string>): void {
  for (const name of given) {
    const key = keyOfFlag[name];
    if (key === undefined) continue;
    throw new ConfigError("CONFIG_BAD_VALUE", {
      message:
        name === "maxDuration"
          ? "--max-duration is given beside a train_ds block. There max_duration is the longest utterance, as in NeMo; on the command line it is the seconds of a batch, as in icefall"
          : `${flagOf(name)} is given beside a train_ds block, which has a key of its own for it`,
      fix: `give train_ds.${key}=... instead${key.endsWith("_duration") && name !== "maxDuration" ? `; a validation_ds has its own, a --valid-manifest is taken whole` : ""}`,
    });
  }
}
