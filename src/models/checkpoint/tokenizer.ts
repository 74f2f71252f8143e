/** The tokenizer that a checkpoint carries, or that is given beside it. */
import { existsSync, readFileSync } from "node:fs";
import { CheckpointError } from "../../util/errors.ts";

/** The bytes of a tokenizer file, to be kept in checkpoints. @throws CheckpointError CHECKPOINT_MISSING */
export function readTokenizer(path: string): Uint8Array {
  if (!existsSync(path))
    throw new CheckpointError("CHECKPOINT_MISSING", {
      at: path,
      message: "no such SentencePiece model",
      fix: "make one: serac bpe train --manifest train.jsonl --vocab-size 500 --out bpe.model",
    });
  return readFileSync(path);
}

/**
 * The tokenizer of a checkpoint.
 * @param own its bytes in the checkpoint, where it has one
 * @param bpeModel path of one that was given, which must be the same
 * @param fallbackTokenizer one that counts where there is no other
 * @throws CheckpointError CHECKPOINT_MISSING where there is none; CHECKPOINT_MISMATCH where there are two different ones
 */
export function chooseTokenizer(
  own: Uint8Array | undefined,
  { bpeModel, fallbackTokenizer }: { bpeModel?: string | undefined; fallbackTokenizer?: Uint8Array | undefined },
  at: string,
): Uint8Array {
  const given = bpeModel === undefined ? undefined : readTokenizer(bpeModel);
  if (own !== undefined && given !== undefined && !Buffer.from(own).equals(given))
    throw new CheckpointError("CHECKPOINT_MISMATCH", {
      at,
      message: `it was trained with another tokenizer than ${bpeModel}`,
      fix: "give the same --bpe-model, or leave it out where a model is only used: the checkpoint has its own",
    });
  const chosen = own ?? given ?? fallbackTokenizer;
  if (chosen === undefined)
    throw new CheckpointError("CHECKPOINT_MISSING", { at, message: "this checkpoint has no tokenizer", fix: "give --bpe-model data/lang_bpe_500/bpe.model" });
  return chosen;
}
