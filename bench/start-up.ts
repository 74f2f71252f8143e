/**
 * How long the command line takes to start: --help, a data command, and from the start to the text of one second of speech with small models (the demo's,
 * and Zipformer S), each a process of its own. Beside them what Node itself and loading libtorch take. SERAC_BENCH_ROUNDS: runs of each, 10 by default.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serializeWav } from "../src/formats/index.ts";
import { AsrModel, asrModelOptions, type ModelConfig, modelOptions, saveCheckpoint } from "../src/models/index.ts";
import { SentencePiece, trainBpe } from "../src/text/index.ts";
import { Generator, scope } from "../src/torch/index.ts";
import { parseOptions } from "../src/util/options.ts";
import { packageRoot } from "../src/util/paths.ts";
import { Random } from "../src/util/random.ts";
import { setting } from "./common/measure.ts";
import { spread } from "./common/turns.ts";
import { sizes } from "./step/model.ts";

const rounds = Number(process.env["SERAC_BENCH_ROUNDS"] ?? 10);
const folder = mkdtempSync(join(tmpdir(), "serac-start-up-"));
const serac = join(packageRoot, "bin", "serac");

/** The shape that `npm run demo` trains. */
const demo: Partial<ModelConfig> = {
  sampleRate: 8000,
  featureDim: 40,
  numEncoderLayers: [3],
  downsamplingFactor: [2],
  encoderDim: [96],
  encoderUnmaskedDim: [80],
  feedforwardDim: [256],
  numHeads: [4],
  queryHeadDim: [16],
  valueHeadDim: [12],
  cnnModuleKernel: [15],
  frontEndChannels: [8, 16, 32],
  useTransducer: false,
  useCtc: true,
};

/** A checkpoint of a model with random parameters. @returns its path */
function checkpoint(name: string, given: Partial<ModelConfig>): string {
  const tokenizer = SentencePiece.load(join(folder, "bpe.model"));
  const config = { ...parseOptions(modelOptions, {}), blankId: 0, sampleRate: 16000, ...given, vocabSize: tokenizer.vocabSize } as ModelConfig;
  const path = join(folder, `${name}.pt`);
  scope(() => {
    const model = new AsrModel({ ...asrModelOptions(config), generator: new Generator(1) });
    saveCheckpoint(path, { config, state: undefined, model: model.stateDict(), modelAvg: undefined, optimizer: new Map(), generator: undefined, tokenizer: tokenizer.bytes });
  });
  return path;
}

/** One second of a voice-like buzz. */
function speech(): string {
  const random = new Random(1);
  const samples = Float32Array.from(
    { length: 16000 },
    (_, i) => 0.2 * Math.sin((2 * Math.PI * 140 * i) / 16000) * Math.sin((Math.PI * 4 * i) / 16000) ** 2 + 0.01 * random.normal(),
  );
  const path = join(folder, "a.wav");
  writeFileSync(path, serializeWav({ sampleRate: 16000, channels: [samples] }, { format: "pcm16" }));
  return path;
}

function time(args: readonly string[]): number {
  const start = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
  return (performance.now() - start) / 1000;
}

const words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero"];
const random = new Random(2);
await trainBpe({
  input: Array.from({ length: 200 }, () => Array.from({ length: 5 }, () => random.choice(words)).join(" ")),
  outPath: join(folder, "bpe.model"),
  vocabSize: 32,
  type: "bpe",
});
const wav = speech();
const manifest = join(folder, "m.jsonl");
writeFileSync(manifest, `${JSON.stringify({ audio_filepath: wav, duration: 1, text: "one" })}\n`);
const small = checkpoint("demo", demo);
const large = checkpoint("s", { ...(sizes.S as Partial<ModelConfig>) });
const addon = join(packageRoot, "build", "native", "serac_torch.node");
const megabytes = (path: string): string => `${(statSync(path).size / 1e6).toFixed(1)} MB`;

const commands: [string, string[], number?][] = [
  ["node -e 0", ["-e", "0"]],
  ["node, loading libtorch", ["-e", `require(${JSON.stringify(addon)})`]],
  ["serac --help", [serac, "--help"], 0.15],
  ["serac train --help", [serac, "train", "--help"]],
  ["serac manifest stats", [serac, "manifest", "stats", manifest]],
  [`serac transcribe, demo's model (${megabytes(small)})`, [serac, "transcribe", "--checkpoint", small, wav], 1.5],
  [`serac transcribe, Zipformer S (${megabytes(large)})`, [serac, "transcribe", "--checkpoint", large, wav], 1.5],
];
console.log(setting());
const times = commands.map((): number[] => []);
for (let round = -1; round < rounds; round++)
  commands.forEach(([, args], i) => {
    const seconds = time(args);
    if (round >= 0) times[i]?.push(seconds); // the first fills the system's cache of files
  });
commands.forEach(([name, , bound], i) => {
  const sorted = [...(times[i] as number[])].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] as number;
  console.log(`${name}: ${spread(sorted)}, median ${median.toFixed(3)} s${bound === undefined ? "" : `, to be ${bound} s or less: ${median <= bound ? "yes" : "NO"}`}`);
});
rmSync(folder, { recursive: true });
