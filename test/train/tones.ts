/** A small corpus that can be learnt in seconds: three words, each a tone of its own. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { serializeWav } from "../../src/formats/index.ts";
import { trainBpe } from "../../src/text/index.ts";
import type { TrainOptionsInput } from "../../src/train/index.ts";
import { Random } from "../../src/util/random.ts";

const frequencies: Record<string, number> = { low: 300, mid: 900, top: 2500 };
const sampleRate = 8000;

/** The shape of a model that learns tones in seconds. */
export const toneShape = {
  numEncoderLayers: [1, 1],
  downsamplingFactor: [1, 2],
  encoderDim: [48, 64],
  encoderUnmaskedDim: [48, 64],
  feedforwardDim: [64, 64],
  numHeads: [2],
  queryHeadDim: [8],
  valueHeadDim: [8],
  posDim: 16,
  cnnModuleKernel: [7],
  frontEndChannels: [4, 8, 8],
  decoderDim: 32,
  joinerDim: 32,
  useCtc: true,
} as const;

/** Samples of some words: 0.3 s of tone each, with 0.1 s between them. */
export function speak(words: readonly string[], random: Random): Float32Array {
  const samples = new Float32Array(Math.round(sampleRate * (0.1 + 0.4 * words.length)));
  words.forEach((word, i) => {
    const start = Math.round(sampleRate * (0.1 + 0.4 * i));
    const frequency = (frequencies[word] as number) * (0.97 + 0.06 * random.uniform());
    for (let k = 0; k < 0.3 * sampleRate; k++) samples[start + k] = 0.3 * Math.sin((2 * Math.PI * frequency * k) / sampleRate);
  });
  for (let k = 0; k < samples.length; k++) samples[k] = (samples[k] as number) + 0.003 * random.normal();
  return samples;
}

/** Writes train.jsonl (96 utterances), test.jsonl (16) and bpe.model; returns options that train a tiny model on them. */
export async function toneCorpus(folder: string): Promise<TrainOptionsInput> {
  const random = new Random(7);
  const texts: string[] = [];
  for (const [name, count] of [
    ["train", 96],
    ["test", 16],
  ] as const) {
    mkdirSync(join(folder, name), { recursive: true });
    const lines = Array.from({ length: count }, (_, i) => {
      const words = Array.from({ length: random.integer(2, 5) }, () => random.choice(Object.keys(frequencies)));
      const samples = speak(words, random);
      writeFileSync(join(folder, name, `${i}.wav`), serializeWav({ sampleRate, channels: [samples] }, { format: "pcm16" }));
      texts.push(words.join(" "));
      return JSON.stringify({ audio_filepath: `${name}/${i}.wav`, duration: samples.length / sampleRate, text: words.join(" ") });
    });
    writeFileSync(join(folder, `${name}.jsonl`), `${lines.join("\n")}\n`);
  }
  await trainBpe({ input: texts, outPath: join(folder, "bpe.model"), vocabSize: 18, type: "bpe" });
  return {
    trainManifest: [join(folder, "train.jsonl")],
    validManifest: [join(folder, "test.jsonl")],
    bpeModel: join(folder, "bpe.model"),
    sampleRate,
    featureDim: 24,
    minUtterance: 0.1,
    maxDuration: 8,
    numBuckets: 2,
    dropLast: false,
    enableSpecAug: false,
    ...toneShape,
    refDuration: 0.1,
    warmStep: 40,
    baseLr: 0.07,
    lrEpochs: 6,
    averagePeriod: 5,
    seed: 1,
    threads: 1,
  };
}
