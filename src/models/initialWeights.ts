/** Parameters of a model that training begins with: another model's, as fine-tuning wants them. */
import { noGrad, scope, type Tensor } from "../torch/index.ts";
import { CheckpointError } from "../util/errors.ts";
import type { AsrModel } from "./asrModel.ts";

/** Parameters with a row for every token of the vocabulary. */
const byToken = [
  "decoder.embedding.weight",
  "joiner.output_linear.weight",
  "joiner.output_linear.bias",
  "simple_am_proj.weight",
  "simple_am_proj.bias",
  "simple_lm_proj.weight",
  "simple_lm_proj.bias",
  "ctc_output.1.weight",
  "ctc_output.1.bias",
  "attention_decoder.decoder.embed.weight",
  "attention_decoder.decoder.output_layer.weight",
  "attention_decoder.decoder.output_layer.bias",
];

/** Where parameters come from. */
export interface InitialWeights {
  /** Of the other model, by icefall's names. */
  from: ReadonlyMap<string, Tensor>;
  /** Names of modules whose parameters are taken ("encoder_embed", "encoder"); all where none is given. */
  initModules?: readonly string[] | undefined;
  /** Row of the other vocabulary for each token of this one, or -1; needed where the vocabularies differ. */
  tokenRows?: readonly number[] | undefined;
  /** The other model, for errors. */
  at: string;
}

/** What became of the model's parameters. */
export interface InitReport {
  /** Taken whole. */
  taken: string[];
  /** With a row for every token: those of tokens that both vocabularies have are taken, the others stay as they were drawn. */
  remade: string[];
  /** Left as they were drawn. */
  drawn: string[];
  /** Tokens of this vocabulary that the other has too. */
  sharedTokens: number;
}

/** The row of the other vocabulary for each piece of this one; -1 where it has none. */
export function tokenRowsOf(pieces: readonly string[], others: readonly string[]): number[] {
  const rows = new Map(others.map((piece, row) => [piece, row]));
  return pieces.map((piece) => rows.get(piece) ?? -1);
}

/**
 * Fills a new model with the parameters of another.
 * Source: icefall zipformer/finetune.py, load_model_params; there the vocabularies must be equal.
 * @throws CheckpointError CHECKPOINT_MISMATCH that lists what is missing or of another shape; nothing is changed then
 */
export function initializeModel(model: AsrModel, { from, initModules, tokenRows, at }: InitialWeights): InitReport {
  const own = model.stateDict();
  const isWanted = (key: string): boolean => !initModules || initModules.some((name) => key.startsWith(`${name}.`));
  const report: InitReport = { taken: [], remade: [], drawn: [], sharedTokens: tokenRows?.filter((row) => row >= 0).length ?? model.vocabSize };
  const isSame = tokenRows === undefined || tokenRows.every((row, token) => row === token);
  const problems: string[] = [];
  for (const name of initModules ?? []) if (![...own.keys()].some((key) => key.startsWith(`${name}.`))) problems.push(`the model has no module ${name}`);
  for (const [key, { shape }] of own) {
    const value = from.get(key);
    if (!isWanted(key)) report.drawn.push(key);
    else if (!value) problems.push(`${key} is missing`);
    else if (byToken.includes(key) && (!isSame || value.shape[0] !== shape[0])) {
      if (tokenRows === undefined) problems.push(`${key} is of ${value.shape[0]} tokens, the model's of ${shape[0]}`);
      else if (value.shape.slice(1).join() !== shape.slice(1).join()) problems.push(`${key} is (${value.shape.join(", ")}), the model's is (${shape.join(", ")})`);
      else report.remade.push(key);
    } else if (value.shape.join() !== shape.join()) problems.push(`${key} is (${value.shape.join(", ")}), the model's is (${shape.join(", ")})`);
    else report.taken.push(key);
  }
  for (const key of from.keys()) if (isWanted(key) && !own.has(key)) problems.push(`${key} is not in the model`);
  if (problems.length > 0) {
    const more = problems.length > 8 ? `; and ${problems.length - 8} more` : "";
    throw new CheckpointError("CHECKPOINT_MISMATCH", {
      at,
      message: `its parameters do not fit: ${problems.slice(0, 8).join("; ")}${more}`,
      fix: "give the options that it was trained with, or say with --init-modules which modules to take",
    });
  }
  noGrad(() =>
    scope(() => {
      for (const key of report.taken) (own.get(key) as Tensor).copy_(from.get(key) as Tensor);
      for (const key of report.remade) {
        const [target, source] = [own.get(key) as Tensor, from.get(key) as Tensor];
        (tokenRows as readonly number[]).forEach((row, token) => {
          if (row >= 0) target.select(0, token).copy_(source.select(0, row));
        });
      }
    }),
  );
  return report;
}
