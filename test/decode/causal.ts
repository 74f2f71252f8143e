/** A small causal model of made-up weights, and audio to stream to it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Recognizer, type RecognizerOptions } from "../../src/decode/index.ts";
import { AsrModel, asrModelOptions, type Checkpoint, type ModelConfig, modelOptions, saveCheckpoint } from "../../src/models/index.ts";
import { SentencePiece, trainBpe } from "../../src/text/index.ts";
import { Generator, noGrad, scope } from "../../src/torch/index.ts";
import { parseOptions } from "../../src/util/options.ts";
import { Random } from "../../src/util/random.ts";
import { wave } from "../golden.ts";
import { fillByWaves } from "../models/helpers.ts";

/** Hz */
export const sampleRate = 8000;

const shape = {
  numEncoderLayers: [1, 1],
  downsamplingFactor: [1, 2],
  encoderDim: [16],
  encoderUnmaskedDim: [16],
  feedforwardDim: [16],
  numHeads: [2],
  queryHeadDim: [4],
  valueHeadDim: [4],
  posDim: 8,
  cnnModuleKernel: [7],
  frontEndChannels: [4, 8, 8],
  decoderDim: 16,
  joinerDim: 16,
  featureDim: 24,
  useCtc: true,
  causal: true,
  chunkSize: [8],
  leftContextFrames: [16],
};

/** The model as a checkpoint, by which frames differ and some are blank. */
async function made(options: Partial<ModelConfig>): Promise<{ model: AsrModel; checkpoint: Checkpoint }> {
  const folder = mkdtempSync(join(tmpdir(), "serac-causal-"));
  await trainBpe({ input: ["low mid top", "top low mid mid"], outPath: join(folder, "bpe.model"), vocabSize: 14, type: "bpe" });
  const tokenizer = SentencePiece.load(join(folder, "bpe.model"));
  rmSync(folder, { recursive: true });
  const config: ModelConfig = { ...parseOptions(modelOptions, shape), vocabSize: tokenizer.vocabSize, blankId: 0, sampleRate, ...options };
  const model = new AsrModel({ ...asrModelOptions(config), generator: new Generator(1) });
  fillByWaves(model, wave);
  noGrad(() => scope(() => void model.transducer?.joiner.outputLinear.bias?.slice(0, 0, 1).add_(0.5)));
  return { model, checkpoint: { config, state: undefined, model: model.stateDict(), modelAvg: undefined, optimizer: new Map(), generator: undefined, tokenizer: tokenizer.bytes } };
}

/** A recogniser with it. */
export async function causalRecognizer(options: Partial<ModelConfig> = {}, search: RecognizerOptions = {}): Promise<Recognizer> {
  return Recognizer.fromCheckpoint((await made(options)).checkpoint, search);
}

/** Writes it to a file. */
export async function causalCheckpoint(path: string, options: Partial<ModelConfig> = {}): Promise<void> {
  const { model, checkpoint } = await made(options);
  saveCheckpoint(path, checkpoint);
  model.dispose();
}

/** Tones that glide, and noise. */
export function speechlike(seconds: number, seed: number): Float32Array {
  const random = new Random(seed);
  const pitch = 0.05 + random.uniform();
  return Float32Array.from({ length: Math.round(seconds * sampleRate) }, (_, i) => 0.3 * Math.sin(pitch * i * (1 + Math.sin(i / 900))) + 0.1 * (random.uniform() - 0.5));
}
