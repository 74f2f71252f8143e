/** Fine-tuning: training that begins with another model. Source: icefall zipformer/finetune.py. */
import {
  disposeCheckpoint,
  initializeModel,
  loadCheckpoint,
  type ModelOptions,
  modelOptions,
  type OpenCheckpointOptions,
  openCheckpoint,
  readTokenizer,
  tokenRowsOf,
} from "../models/index.ts";
import { SentencePiece } from "../text/index.ts";
import { ConfigError } from "../util/errors.ts";
import { boolean, number, type OptionsInput, parseOptions, path, type Schema, strings } from "../util/options.ts";
import { givenNames, withConfig } from "./configFile.ts";
import { runTraining, type TrainReporter, type TrainResult } from "./loop.ts";
import { checkTrainOptions, type TrainOptions, trainOptions } from "./options.ts";
import type { RunParts } from "./runState.ts";
import type { Tokens } from "./tokens.ts";

const group = "Fine-tuning";
const schedule = "Schedule";

/** Every schedule of a regulariser is at its end from the first update on. */
const batchCountOffset = 100_000;

export const finetuneOptions = {
  ...trainOptions,
  doFinetune: boolean({ default: true, group, help: "begin with --finetune-ckpt; else with random parameters" }),
  finetuneCkpt: path({ group, unit: "file", help: "checkpoint to begin with: icefall's or serac's, epoch-N.pt or pretrained.pt" }),
  initModules: strings({ group, unit: "modules", help: "modules to take from it, as encoder_embed,encoder; all where not given" }),
  useMux: boolean({ default: false, group, help: "train on --mux-manifest as well, so that what the model knew is kept" }),
  muxManifest: strings({ group, unit: "files", help: "NeMo manifests of the original data" }),
  baseLr: number({ default: 0.0045, min: 0, group: schedule, help: "learning rate before the schedule" }),
  lrBatches: number({ default: 100_000, min: 1, group: schedule, help: "Eden: updates after which the rate falls" }),
  lrEpochs: number({ default: 100, min: 0.01, group: schedule, help: "Eden: epochs after which the rate falls" }),
} satisfies Schema;

/** What a caller gives: everything with a default may be left out. */
export type FinetuneOptionsInput = OptionsInput<typeof finetuneOptions>;

/**
 * Trains from another model. Layers with a row for every token are re-made where the vocabularies differ: tokens that both have keep their rows.
 * @throws ConfigError for options; CheckpointError where the checkpoint does not fit; and as `train`
 */
export async function finetune(input: FinetuneOptionsInput, { signal, report }: { signal?: AbortSignal; report?: TrainReporter } = {}): Promise<TrainResult> {
  const all = withConfig(input, finetuneOptions);
  const { doFinetune, finetuneCkpt, initModules, useMux, muxManifest, ...rest } = parseOptions(finetuneOptions, all);
  const refuse = (message: string, fix: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { message, fix });
  };
  if (doFinetune && finetuneCkpt === undefined)
    refuse("--finetune-ckpt is missing: there is no model to begin with", "name an epoch-N.pt or pretrained.pt, or give --do-finetune 0");
  if (useMux && (!muxManifest || !rest.trainManifest)) refuse("--use-mux needs --train-manifest and --mux-manifest", "name the new and the original data");
  const trainManifest = useMux ? [...(rest.trainManifest ?? []), ...(muxManifest ?? [])] : rest.trainManifest;
  const given = givenNames(all);
  const options = { ...rest, trainManifest, batchCountOffset };
  if (!doFinetune) return runTraining(checkTrainOptions(options), { given, signal, report });
  const other = new OtherModel(finetuneCkpt as string, options, given);
  return runTraining(checkTrainOptions({ ...options, ...other.shape() }), { given, signal, report, prepare: (...context) => other.begin(initModules, ...context) });
}

/** Shapes of parameters do not tell these apart. */
const ofHeads = ["numHeads", "queryHeadDim", "valueHeadDim", "posHeadDim"] as const;

/** The model to begin with. */
class OtherModel {
  private readonly path: string;
  private readonly open: OpenCheckpointOptions;

  private readonly given: ReadonlySet<string>;

  /** @param given names of the options that were given: only those may contradict the checkpoint */
  constructor(path: string, options: TrainOptions, given: ReadonlySet<string>) {
    this.path = path;
    this.given = given;
    const heads = Object.fromEntries(ofHeads.filter((name) => given.has(name)).map((name) => [name, options[name]]));
    this.open = { fallbackTokenizer: readTokenizer(options.bpeModel), given: heads, sampleRate: given.has("sampleRate") ? options.sampleRate : undefined };
  }

  /** Options of the model and of its features that were not given, as the checkpoint has them. */
  shape(): Partial<TrainOptions> {
    const { config, close } = openCheckpoint(this.path, this.open);
    close();
    const names = ([...Object.keys(modelOptions), "sampleRate"] as (keyof ModelOptions | "sampleRate")[]).filter((name) => !this.given.has(name));
    return Object.fromEntries(names.map((name) => [name, config[name]]));
  }

  /** Fills a new model, and says what became of its parameters. */
  begin(initModules: readonly string[] | undefined, { model }: RunParts, tokens: Tokens, say: (line: string) => void): void {
    const { path } = this;
    const other = loadCheckpoint(path, this.open);
    try {
      const vocabulary = SentencePiece.fromBytes(other.tokenizer, path);
      const pieces = (model: SentencePiece): string[] => Array.from({ length: model.vocabSize }, (_, id) => model.idToPiece(id));
      const isKnown = vocabulary.vocabSize === other.config.vocabSize;
      const tokenRows = isKnown ? tokenRowsOf(pieces(tokens.model), pieces(vocabulary)) : undefined;
      const { taken, remade, drawn, sharedTokens } = initializeModel(model, { from: other.model, initModules, tokenRows, at: path });
      say(`begins with ${path}: ${taken.length} parameters taken${drawn.length > 0 ? `, ${drawn.length} of other modules drawn` : ""}`);
      if (remade.length > 0)
        say(`the vocabulary differs: ${remade.length} parameters are re-made, with the rows of ${sharedTokens} of ${tokens.model.vocabSize} tokens that both have`);
    } finally {
      disposeCheckpoint(other);
    }
  }
}
