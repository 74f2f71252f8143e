/** The corpus of tones in the forms that training reads besides manifests: LibriSpeech's tree, prepared, and noise. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readAudio, writeAudio } from "../../src/audio/index.ts";
import { LeftOut, type LoadedEpoch, prepareLibrispeech, prepareMusan, type SpeechBatch, shuffleTrainCuts } from "../../src/data/index.ts";
import { serializeWav } from "../../src/formats/index.ts";
import { readTokenizer } from "../../src/models/index.ts";
import { SentencePiece } from "../../src/text/index.ts";
import { checkTrainOptions, type TrainOptionsInput, trainOptions } from "../../src/train/options.ts";
import { TrainData } from "../../src/train/trainData.ts";
import { parseOptions } from "../../src/util/options.ts";
import { Random } from "../../src/util/random.ts";

interface Line {
  audio_filepath: string;
  duration: number;
  text: string;
}

export const linesOf = (path: string): Line[] =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);

/** Two recordings of coloured noise, in a folder as MUSAN has it. @returns the folder */
export function noiseFolder(folder: string): string {
  const random = new Random(11);
  for (const [name, seconds] of [
    ["a", 6],
    ["b", 12],
  ] as const) {
    const samples = new Float32Array(seconds * 8000);
    for (let i = 1; i < samples.length; i++) samples[i] = 0.9 * (samples[i - 1] as number) + 0.02 * random.normal();
    mkdirSync(join(folder, "musan", "noise"), { recursive: true });
    writeFileSync(join(folder, "musan", "noise", `${name}.wav`), serializeWav({ sampleRate: 8000, channels: [samples] }, { format: "pcm16" }));
  }
  return join(folder, "musan");
}

/** LibriSpeech's tree of the tones: four parts of a few utterances, prepared with features of 24 bins. @returns the folder of cuts */
export async function preparedTones(folder: string): Promise<string> {
  const lines = linesOf(join(folder, "train.jsonl"));
  const parts = ["train-clean-100", "train-clean-360", "train-other-500", "dev-clean"];
  for (const [p, part] of parts.entries()) {
    const chapter = join(folder, "LibriSpeech", part, `${p}`, "1");
    mkdirSync(chapter, { recursive: true });
    const mine = lines.slice(12 * p, 12 * (p + 1));
    for (const [i, line] of mine.entries()) await writeAudio(join(chapter, `${p}-1-${i}.flac`), await readAudio(join(folder, line.audio_filepath)));
    writeFileSync(join(chapter, `${p}-1.trans.txt`), mine.map(({ text }, i) => `${p}-1-${i} ${text}\n`).join(""));
  }
  noiseFolder(folder);
  const cutsFolder = join(folder, "fbank");
  const options = { manifestFolder: join(folder, "manifests"), cutsFolder, features: true, numMelBins: 24, jobs: 2, leftOut: new LeftOut() };
  await prepareLibrispeech(join(folder, "LibriSpeech"), options);
  await shuffleTrainCuts(cutsFolder, 1);
  await prepareMusan(join(folder, "musan"), options);
  return cutsFolder;
}

/** Opens data as `train` does, says what it said, and closes it. */
export async function withData<T>(input: TrainOptionsInput, work: (data: TrainData, said: readonly string[]) => Promise<T>): Promise<T> {
  const options = checkTrainOptions(parseOptions(trainOptions, input));
  const tokenizer = SentencePiece.fromBytes(readTokenizer(options.bpeModel));
  const said: string[] = [];
  const context = { options, given: new Set(Object.keys(input)), tokenizer, tokenizerKey: "test", say: (line: string) => void said.push(line) };
  const data = await TrainData.open(context, (text) => tokenizer.encode(text));
  try {
    return await work(data, said);
  } finally {
    await data.close();
  }
}

/** The batches of an epoch, or the first `most`. */
export async function batchesOf(epoch: { next(): Promise<SpeechBatch | undefined> } | LoadedEpoch, most = Number.POSITIVE_INFINITY): Promise<SpeechBatch[]> {
  const batches: SpeechBatch[] = [];
  while (batches.length < most) {
    const batch = await epoch.next();
    if (!batch) break;
    batches.push(batch);
  }
  return batches;
}

/** The batches of training's epoch `number`. */
export const trainBatches = (input: TrainOptionsInput, number = 1): Promise<SpeechBatch[]> =>
  withData(input, async (data) => batchesOf(await data.epoch(number, undefined, undefined)));

/** Options that make everything draw, besides dropout: speed, noise, rooms, warping and masks. */
export const everythingRandom = (folder: string): TrainOptionsInput => ({
  speedPerturb: true,
  noisePath: noiseFolder(folder),
  noiseMixProb: 0.7,
  rirEnabled: true,
  rirProb: 0.3,
  enableSpecAug: true,
  specAugTimeWarpFactor: 4,
});
