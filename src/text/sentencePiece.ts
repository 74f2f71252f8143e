/**
 * SentencePiece tokenizers by libsentencepiece, trained with icefall's settings.
 * Source: icefall egs/librispeech/ASR/local/train_bpe_model.py for the defaults; google/sentencepiece for the rest.
 */
import { readFileSync } from "node:fs";
import { type MediaAddon, type ModelHandle, media, nativeError } from "../audio/media.ts";
import { fileError, writeFileAtomic } from "../formats/atomic.ts";
import { readBytes } from "../formats/byteSource.ts";
import { ConfigError, TextError } from "../util/errors.ts";

/** How to train. Options without a comment are libsentencepiece's own. */
export interface TrainBpeOptions {
  /** Sentences, or the path of a text file (plain or gzip) with one a line. */
  input: Iterable<string> | string;
  /** Where the model goes; or `modelPrefix`, to which ".model" is added. */
  outPath?: string;
  modelPrefix?: string;
  /** Pieces in all, special ones included. */
  vocabSize: number;
  /** "unigram" by default, which is what icefall's recipes call BPE. */
  type?: "unigram" | "bpe" | "char" | "word";
  /** Part of the characters that get a piece; 1 by default. */
  characterCoverage?: number;
  /** Pieces of their own from id 0 on; `<blk>` and `<sos/eos>` by default. */
  userDefinedSymbols?: readonly string[];
  /** 2 by default, behind the two symbols above. */
  unkId?: number;
  bosId?: number;
  eosId?: number;
  padId?: number;
  /** Sentences taken at most; 100 million by default. */
  inputSentenceSize?: number;
  /** False lets the vocabulary become smaller than asked for; true by default. */
  hardVocabLimit?: boolean;
  /** "nmt_nfkc" by default. */
  normalization?: "nmt_nfkc" | "nfkc" | "nmt_nfkc_cf" | "nfkc_cf" | "identity";
  /** 16 by default; the result depends on it in the last bits. */
  numThreads?: number;
  /** Further options of the trainer by its own names. */
  extra?: Readonly<Record<string, string | number | boolean>>;
}

function csvQuote(symbol: string): string {
  return /[",\n]/.test(symbol) ? `"${symbol.replaceAll('"', '""')}"` : symbol;
}

async function textOf(input: Iterable<string> | string): Promise<Buffer> {
  const parts: Buffer[] = [];
  if (typeof input === "string") for await (const chunk of readBytes(input)) parts.push(chunk);
  else {
    let block = "";
    for (const sentence of input) {
      block += `${sentence.replaceAll("\n", " ")}\n`;
      if (block.length >= 1 << 20) {
        parts.push(Buffer.from(block, "utf8"));
        block = "";
      }
    }
    parts.push(Buffer.from(block, "utf8"));
  }
  return Buffer.concat(parts);
}

/** libsentencepiece's reason as one of our codes. */
function trainError(error: unknown, vocabSize: number, at: string): unknown {
  const mapped = nativeError(error, TextError, at);
  if (!(mapped instanceof TextError) || mapped.code !== "TEXT_TRAIN_FAILED") return mapped;
  const words = error instanceof Error ? error.message : "";
  const largest = /(?:too high|too large).*?<=\s*(\d+)/i.exec(words)?.[1];
  if (largest !== undefined) {
    return new TextError("TEXT_VOCAB_TOO_LARGE", {
      at,
      message: `a vocabulary of ${vocabSize} is too large for this text: the largest possible is ${largest}`,
      fix: `ask for ${largest} or less, or give more text`,
      cause: error,
    });
  }
  const smallest = /smaller than required_chars\.\s*\d+\s*vs\s*(\d+)/i.exec(words)?.[1];
  if (smallest !== undefined) {
    return new TextError("TEXT_VOCAB_TOO_SMALL", {
      at,
      message: `a vocabulary of ${vocabSize} has no room for every character and special token: ${smallest} is the smallest`,
      fix: `ask for ${smallest} or more, or lower the character coverage`,
      cause: error,
    });
  }
  return mapped;
}

/**
 * Trains a model off the main thread and writes it, whole or not at all. Prints nothing.
 * @throws TextError TEXT_TRAIN_NO_INPUT, TEXT_VOCAB_TOO_LARGE (naming the largest size), TEXT_VOCAB_TOO_SMALL, TEXT_TRAIN_FAILED;
 * ConfigError CONFIG_BAD_VALUE; FormatError of reading and writing; NativeError NATIVE_MISSING
 */
export async function trainBpe(options: TrainBpeOptions): Promise<void> {
  const {
    input,
    outPath,
    modelPrefix,
    vocabSize,
    type = "unigram",
    characterCoverage = 1,
    userDefinedSymbols = ["<blk>", "<sos/eos>"],
    unkId = 2,
    bosId = -1,
    eosId = -1,
    padId = -1,
  } = options;
  const { inputSentenceSize = 100_000_000, hardVocabLimit = true, normalization = "nmt_nfkc", numThreads = 16, extra = {} } = options;
  const path = outPath ?? (modelPrefix === undefined ? undefined : `${modelPrefix}.model`);
  const bad = (message: string) => new ConfigError("CONFIG_BAD_VALUE", { at: "trainBpe", message });
  if (path === undefined) throw bad("neither outPath nor modelPrefix is given");
  if (!Number.isInteger(vocabSize) || vocabSize < 1) throw bad(`vocabSize is ${vocabSize}, not a whole number of 1 or more`);
  if (!["unigram", "bpe", "char", "word"].includes(type)) throw bad(`type is ${type}, not unigram, bpe, char or word`);
  if (!(characterCoverage > 0.5 && characterCoverage <= 1)) throw bad(`characterCoverage is ${characterCoverage}, not within 0.5 to 1`);
  if (!Number.isInteger(unkId) || unkId < 0 || unkId >= vocabSize) throw bad(`unkId is ${unkId}, not within 0 to ${vocabSize - 1}`);
  if (userDefinedSymbols.some((s) => s === "")) throw bad("an empty user-defined symbol");
  // The trainer ends the process on these, so they stop here.
  for (const [name, id] of Object.entries({ bosId, eosId, padId })) {
    if (!Number.isInteger(id) || id < -1 || id >= vocabSize || id === unkId) throw bad(`${name} is ${id}, which is no free id`);
  }
  const at = typeof input === "string" ? input : path;
  const text = await textOf(input);
  if (!/\S/.test(text.toString("latin1", 0, Math.min(text.length, 1 << 16))) && !/\S/.test(text.toString("utf8"))) {
    throw new TextError("TEXT_TRAIN_NO_INPUT", { at, message: "there is no text to train on" });
  }
  let model: Uint8Array;
  try {
    model = await media().trainModel(text, {
      vocab_size: String(vocabSize),
      model_type: type,
      model_prefix: "", // the model comes back as bytes
      character_coverage: String(characterCoverage),
      user_defined_symbols: userDefinedSymbols.map(csvQuote).join(","),
      unk_id: String(unkId),
      bos_id: String(bosId),
      eos_id: String(eosId),
      pad_id: String(padId),
      input_sentence_size: String(inputSentenceSize),
      hard_vocab_limit: String(hardVocabLimit),
      normalization_rule_name: normalization,
      num_threads: String(numThreads),
      minloglevel: "3",
      ...Object.fromEntries(Object.entries(extra).map(([k, v]) => [k, String(v)])),
    });
  } catch (error) {
    throw trainError(error, vocabSize, at);
  }
  writeFileAtomic(path, model);
}

/** What libsentencepiece says of a file that it cannot load, as our error; its words may begin with a place in its own source. */
function loadError(error: unknown, at: string): unknown {
  const mapped = nativeError(error, TextError, at);
  if (!(mapped instanceof TextError) || mapped.code !== "TEXT_NOT_A_MODEL") return mapped;
  const words = (error instanceof Error ? error.message : "")
    .replace(/^(?:Internal: |INTERNAL: )?\S+\.(?:cc|h)\(\d+\)\s*(?:\[.*?\]\s*)?/, "")
    .replace(/\.\s*$/, "")
    .trim();
  return new TextError("TEXT_NOT_A_MODEL", {
    at,
    message: `this is no SentencePiece model${words === "" ? "" : ` (${words})`}, expected a file as "serac bpe train" writes it`,
    fix: "name the .model file of a tokenizer, or make one: serac bpe train --manifest train.jsonl --vocab-size 500 --out bpe.model",
    cause: error,
  });
}

/** A loaded model. */
export class SentencePiece {
  private readonly addon: MediaAddon;
  private readonly handle: ModelHandle;
  /** V */
  readonly vocabSize: number;
  /** The id of what has no piece. */
  readonly unkId: number;
  /** The file as it was, for keeping it beside a model. */
  readonly bytes: Uint8Array;

  private constructor(bytes: Uint8Array, at: string) {
    this.addon = media();
    try {
      this.handle = this.addon.loadModel(bytes);
    } catch (error) {
      throw loadError(error, at);
    }
    this.bytes = bytes;
    this.vocabSize = this.addon.vocabSize(this.handle);
    this.unkId = this.addon.unknownId(this.handle);
  }

  /** @throws FormatError FILE_MISSING, FILE_UNREADABLE; TextError TEXT_NOT_A_MODEL; NativeError NATIVE_MISSING */
  static load(path: string): SentencePiece {
    let bytes: Uint8Array;
    try {
      bytes = readFileSync(path);
    } catch (error) {
      throw fileError(path, "read", error);
    }
    return new SentencePiece(bytes, path);
  }

  /**
   * @param at the name that errors give
   * @throws TextError TEXT_NOT_A_MODEL; NativeError NATIVE_MISSING
   */
  static fromBytes(bytes: Uint8Array, at = "tokenizer model"): SentencePiece {
    return new SentencePiece(bytes, at);
  }

  /** @returns ids (S) */
  encode(text: string): Int32Array {
    return this.addon.encodeIds(this.handle, text);
  }

  /** The pieces as text; U+2581 stands for a space. */
  encodePieces(text: string): string[] {
    return this.addon.encodePieces(this.handle, text);
  }

  /** @throws TextError TEXT_BAD_ID */
  decode(ids: ArrayLike<number>): string {
    try {
      return this.addon.decodeIds(this.handle, ids instanceof Int32Array ? ids : Int32Array.from(ids));
    } catch (error) {
      throw nativeError(error, TextError, undefined);
    }
  }

  /** @throws TextError TEXT_BAD_ID */
  idToPiece(id: number): string {
    if (!Number.isInteger(id)) throw new TextError("TEXT_BAD_ID", { message: `${id} is not a token id` });
    try {
      return this.addon.idToPiece(this.handle, id);
    } catch (error) {
      throw nativeError(error, TextError, undefined);
    }
  }

  /** @returns the id of a piece, `unkId` where there is none */
  pieceToId(piece: string): number {
    return this.addon.pieceToId(this.handle, piece);
  }
}
