/** Speech to text with a trained model: from audio files, samples or cuts. */
import { type Features, fbank, readAudio, resample, toMono } from "../audio/index.ts";
import { type Cut, collate, cutFeatures, type FeatureOptions, minFeatureFrames, prefetch } from "../data/index.ts";
import { AsrModel, asrModelOptions, type Checkpoint, disposeCheckpoint, featurePadding, type ModelConfig, type OpenCheckpointOptions, openCheckpoint } from "../models/index.ts";
import { SentencePiece } from "../text/index.ts";
import { fromTypedArray, Generator, noGrad, scope } from "../torch/index.ts";
import { AudioError, CheckpointError, ConfigError, placed, SeracError } from "../util/errors.ts";
import { attentionBytes, longestFrames, memoryForAttention } from "./attentionMemory.ts";
import { checkSymPerFrame, ctcGreedySearch, greedySearch, secondsPerFrame } from "./greedy.ts";

/** How to search. */
export type DecodingMethod = "greedy_search" | "ctc-greedy-search";

/** A token and when it was seen. */
export interface TimedToken {
  /** The piece of the tokenizer; "▁" marks the start of a word. */
  piece: string;
  /** Seconds from the start of the audio. */
  time: number;
}

/** What was recognised. */
export interface Transcript {
  text: string;
  tokens: TimedToken[];
  /** Seconds of audio. */
  duration: number;
}

/** How to recognise. */
export interface RecognizerOptions {
  /** The transducer's where there is one. */
  method?: DecodingMethod | undefined;
  /** Tokens that greedy_search takes from a frame at most; 1 unless given. The CTC output has no more than one. */
  maxSymPerFrame?: number;
  /** Bytes that attention may take; half of the memory that the process may have by default. Longer recordings are refused. */
  attentionMemory?: number;
}

/** Frames of silence after the end of what a causal model recognises, in streams and not: icefall's decode.py and streaming_decode.py. */
export const tailFrames = 30;

/** Frames of features a second. */
const frameRate = 100;

/** A model with its tokenizer, ready to recognise. */
export class Recognizer {
  readonly model: AsrModel;
  readonly tokenizer: SentencePiece;
  readonly method: DecodingMethod;
  readonly maxSymPerFrame: number;
  /** What the model takes. */
  readonly features: Readonly<FeatureOptions>;
  private readonly config: ModelConfig;
  private readonly attentionMemory: number;

  private constructor(
    model: AsrModel,
    tokenizer: SentencePiece,
    {
      method,
      maxSymPerFrame,
      features,
      config,
      attentionMemory,
    }: { method: DecodingMethod; maxSymPerFrame: number; features: FeatureOptions; config: ModelConfig; attentionMemory: number },
  ) {
    this.model = model;
    this.tokenizer = tokenizer;
    this.method = method;
    this.maxSymPerFrame = maxSymPerFrame;
    this.features = features;
    this.config = config;
    this.attentionMemory = attentionMemory;
  }

  /** Loads an epoch-N.pt file. @throws CheckpointError; ConfigError when the model has no head for the method */
  static load(path: string, options: RecognizerOptions & OpenCheckpointOptions = {}): Recognizer {
    const file = openCheckpoint(path, options);
    try {
      const { config, state, tokenizer } = file;
      return Recognizer.fromCheckpoint({ config, state, tokenizer, model: file.model(), modelAvg: undefined, optimizer: new Map(), generator: undefined }, options);
    } catch (error) {
      throw error instanceof CheckpointError ? placed(error, path) : error;
    } finally {
      file.close();
    }
  }

  /** Builds the model of a checkpoint, whose tensors it frees. */
  static fromCheckpoint(checkpoint: Checkpoint, { method, maxSymPerFrame = 1, attentionMemory = memoryForAttention() }: RecognizerOptions = {}): Recognizer {
    checkSymPerFrame(maxSymPerFrame);
    const { config } = checkpoint;
    const chosen = method ?? (config.useTransducer ? "greedy_search" : "ctc-greedy-search");
    if (chosen === "greedy_search" && !config.useTransducer)
      throw new ConfigError("CONFIG_BAD_VALUE", { message: "greedy_search needs a transducer, which this model does not have", fix: "use ctc-greedy-search" });
    if (chosen === "ctc-greedy-search" && !config.useCtc)
      throw new ConfigError("CONFIG_BAD_VALUE", { message: "ctc-greedy-search needs a CTC head, which this model does not have", fix: "use greedy_search" });
    const tokenizer = SentencePiece.fromBytes(checkpoint.tokenizer);
    if (tokenizer.vocabSize !== config.vocabSize)
      throw new CheckpointError("CHECKPOINT_MISMATCH", {
        message: `the model has a vocabulary of ${config.vocabSize} tokens, the tokenizer one of ${tokenizer.vocabSize}`,
        fix: "give the --bpe-model that the model was trained with",
      });
    const model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(0) }));
    model.loadStateDict(checkpoint.model);
    model.eval();
    disposeCheckpoint(checkpoint);
    const features: FeatureOptions = { sampleRate: config.sampleRate, featureDim: config.featureDim, purpose: "transcription" };
    return new Recognizer(model, tokenizer, { method: chosen, maxSymPerFrame, features, config, attentionMemory });
  }

  /** Text of one audio file, any format and rate; several channels are mixed to one. Too short for one frame gives an empty text. @throws AudioError, and others, all of which name the file */
  async transcribe(path: string): Promise<Transcript> {
    try {
      const audio = await readAudio(path);
      return await this.transcribeSamples(toMono(audio), audio.sampleRate);
    } catch (error) {
      throw error instanceof SeracError ? placed(error, path) : error;
    }
  }

  /** Text of mono samples in [-1, 1]. @throws AudioError AUDIO_TOO_LONG, AUDIO_NOT_FINITE */
  async transcribeSamples(samples: Float32Array, sampleRate: number): Promise<Transcript> {
    const { sampleRate: rate, featureDim } = this.features;
    this.checkLength((samples.length / sampleRate) * frameRate);
    const atRate = sampleRate === rate ? samples : await resample(samples, sampleRate, rate);
    const features = await fbank(atRate, { sampleRate: rate, numMelBins: featureDim });
    const [result] = this.search([features]);
    return { ...(result as Omit<Transcript, "duration">), duration: samples.length / sampleRate };
  }

  /**
   * Recognises cuts in batches of at most `maxDuration` seconds of padded audio, longest first, reading audio ahead.
   * @param onError takes utterances whose audio cannot be used; without it the first one throws
   */
  async *transcribeCuts(
    cuts: readonly Cut[],
    { maxDuration = 200, onError }: { maxDuration?: number; onError?: (error: SeracError, cut: Cut) => void } = {},
  ): AsyncGenerator<{ cut: Cut; transcript: Transcript }> {
    let batch: { cut: Cut; features: Awaited<ReturnType<typeof cutFeatures>> }[] = [];
    const read = async (cut: Cut) => {
      try {
        const features = await cutFeatures(cut, this.features);
        this.checkLength(features.frames);
        return { cut, features };
      } catch (thrown) {
        const error = thrown instanceof SeracError ? placed(thrown, cut.audioPath) : thrown;
        if (!onError || !(error instanceof SeracError)) throw error;
        onError(error, cut);
        return undefined;
      }
    };
    const flush = () => {
      const results = this.search(batch.map((item) => item.features));
      const done = batch.map(({ cut, features }, i) => ({ cut, transcript: { ...(results[i] as Omit<Transcript, "duration">), duration: features.frames / frameRate } }));
      batch = [];
      return done;
    };
    const order = [...cuts].sort((a, b) => (b.duration || 0) - (a.duration || 0));
    let longest = 0; // frames
    for await (const item of prefetch(order, 16, read)) {
      if (!item) continue;
      const { frames } = item.features;
      const [most, size] = [Math.max(longest, frames), batch.length + 1];
      if (batch.length > 0 && ((most / frameRate) * size > maxDuration || attentionBytes(this.config, most, size) > this.attentionMemory)) {
        yield* flush();
        longest = 0;
      }
      longest = Math.max(longest, frames);
      batch.push(item);
    }
    if (batch.length > 0) yield* flush();
  }

  /** @throws AudioError AUDIO_TOO_LONG where attention over so many frames of features does not fit */
  private checkLength(frames: number): void {
    const needed = attentionBytes(this.config, frames);
    if (needed <= this.attentionMemory) return;
    const gigabytes = (bytes: number): string => `${Number((bytes / 2 ** 30).toPrecision(2))} GiB`;
    const longest = Math.floor(longestFrames(this.config, this.attentionMemory) / frameRate);
    throw new AudioError("AUDIO_TOO_LONG", {
      message: `${(frames / frameRate).toFixed(0)} s of audio at once: attention over all of it takes ${gigabytes(needed)}, more than the ${gigabytes(this.attentionMemory)} that may be used`,
      fix: `cut it at pauses into pieces of at most ${longest} s: files of their own, or lines with "offset" and "duration" in a manifest for serac decode`,
    });
  }

  /** Texts and times of feature matrices, in their order. */
  private search(items: readonly Features[]): Omit<Transcript, "duration">[] {
    const results: Omit<Transcript, "duration">[] = items.map(() => ({ text: "", tokens: [] }));
    const { causal } = this.model.encoder;
    const longEnough = items.map((features, index) => ({ features: causal ? withTail(features) : features, index })).filter(({ features }) => features.frames >= minFeatureFrames);
    if (longEnough.length === 0) return results;
    const { featureDim } = this.features;
    const batch = collate(
      longEnough.map(({ features, index }) => ({ cut: index, features })),
      featureDim,
    );
    const { model, method, maxSymPerFrame } = this;
    const found = noGrad(() =>
      scope(() => {
        const x = fromTypedArray(batch.inputs, [batch.cuts.length, batch.frames, featureDim]);
        return method === "greedy_search" ? greedySearch(model, x, batch.inputLens, { maxSymPerFrame }) : ctcGreedySearch(model, x, batch.inputLens);
      }),
    );
    found.forEach(({ tokens, frames }, i) => {
      results[batch.cuts[i] as number] = {
        text: this.tokenizer.decode(tokens),
        tokens: Array.from(tokens, (id, k) => ({ piece: this.tokenizer.idToPiece(id), time: Number(((frames[k] as number) * secondsPerFrame).toFixed(2)) })),
      };
    });
    return results;
  }

  /** Frees the model. */
  dispose(): void {
    this.model.dispose();
  }
}

/** Features with `tailFrames` of silence after them; none stay none. */
function withTail({ frames, bins, data }: Features): Features {
  if (frames === 0) return { frames, bins, data };
  const padded = new Float32Array((frames + tailFrames) * bins).fill(featurePadding);
  padded.set(data);
  return { frames: frames + tailFrames, bins, data: padded };
}
