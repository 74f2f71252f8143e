import { OnlineFbank } from "../audio/index.ts";
import { featurePadding, type StreamingEncoder } from "../models/index.ts";
import type { SentencePiece } from "../text/index.ts";
import { keep, noGrad, scope, type Tensor } from "../torch/index.ts";
import { secondsPerFrame } from "./greedy.ts";
import type { TimedToken } from "./recognizer.ts";

/** What a stream is made of. */
export interface RecognitionStreamOptions {
  encoder: StreamingEncoder;
  tokenizer: SentencePiece;
  sampleRate: number;
  featureDim: number;
  /** Frames of silence that are put after the end. */
  tailFrames: number;
}

/**
 * One stream of audio and what was recognised of it. `StreamingRecognizer` makes it and decodes it.
 * Samples are turned into features as they come; of these it keeps what no chunk has taken yet.
 */
export class RecognitionStream {
  private readonly encoder: StreamingEncoder;
  private readonly tokenizer: SentencePiece;
  private readonly fbank: OnlineFbank;
  private readonly bins: number;
  private readonly sampleRate: number;
  private readonly tailFrames: number;
  private features = new Float32Array(0);
  /** Feature frames that chunks have gone over. */
  private position = 0;
  private finished = false;
  private states: readonly Tensor[];
  private readonly ids: number[] = [];
  private readonly idFrames: number[] = [];
  private encoderFrames = 0;

  constructor({ encoder, tokenizer, sampleRate, featureDim, tailFrames }: RecognitionStreamOptions) {
    this.encoder = encoder;
    this.tokenizer = tokenizer;
    this.fbank = new OnlineFbank({ sampleRate, numMelBins: featureDim });
    this.bins = featureDim;
    this.sampleRate = sampleRate;
    this.tailFrames = tailFrames;
    this.states = noGrad(() => scope(() => encoder.initStates().map(keep)));
  }

  /**
   * Takes mono samples in [-1, 1] at the recogniser's rate, any number of them.
   * @throws AudioError AUDIO_NOT_FINITE, and nothing is taken then; ConfigError after `finish`
   */
  accept(samples: Float32Array): void {
    this.append(this.fbank.accept(samples).data);
  }

  /** Says that no more samples come: what is left becomes ready, with silence after it. A second call does nothing. */
  finish(): void {
    if (this.finished) return;
    this.append(this.fbank.finish().data);
    this.finished = true;
    if (this.done) this.free();
  }

  /** True when there is a chunk to decode. */
  get ready(): boolean {
    return this.finished ? !this.done : this.features.length >= this.encoder.chunkFrames * this.bins;
  }

  /** True when all audio and the silence after it have been decoded. */
  get done(): boolean {
    return this.finished && this.position >= this.endFrame;
  }

  /** What was recognised so far; the last word may be a part of one. */
  get text(): string {
    return this.tokenizer.decode(this.ids);
  }

  /** Number of tokens so far. */
  get tokenCount(): number {
    return this.ids.length;
  }

  /** The same in tokens, with their times. */
  get tokens(): TimedToken[] {
    return this.ids.map((id, i) => ({ piece: this.tokenizer.idToPiece(id), time: Number(((this.idFrames[i] as number) * secondsPerFrame).toFixed(2)) }));
  }

  /** Seconds of audio that came so far. */
  get duration(): number {
    return this.fbank.samples / this.sampleRate;
  }

  /** For the recogniser: the next chunk's (chunkFrames, F) features, padded after the end, and what the search and the encoder know. */
  next(): { features: Float32Array; states: readonly Tensor[]; tokens: readonly number[]; frames: number } {
    const features = new Float32Array(this.encoder.chunkFrames * this.bins).fill(featurePadding);
    features.set(this.features.subarray(0, features.length));
    return { features, states: this.states, tokens: this.ids, frames: this.encoderFrames };
  }

  /** For the recogniser: goes on by a chunk. Takes the states over and frees those before. */
  advance({ states, tokens, frames, encoderFrames }: { states: readonly Tensor[]; tokens: readonly number[]; frames: readonly number[]; encoderFrames: number }): void {
    this.free();
    this.states = states.map((state) => keep(state));
    this.ids.push(...tokens);
    this.idFrames.push(...frames);
    this.encoderFrames += encoderFrames;
    this.position += this.encoder.shift;
    this.features = this.features.subarray(this.encoder.shift * this.bins); // copied where more comes, not at every chunk
    if (this.done) this.free();
  }

  /** Frees what the encoder remembers. The text stays. */
  dispose(): void {
    if (!this.finished) this.fbank.finish();
    this.free();
    this.finished = true;
    this.position = Number.POSITIVE_INFINITY;
  }

  /** Frames of features with what is put after them, of which a chunk starts at every multiple of the shift. Without audio there are none. */
  private get endFrame(): number {
    const { frames } = this.fbank;
    return frames === 0 ? 0 : frames + this.tailFrames + this.encoder.chunkFrames - this.encoder.shift;
  }

  private append(data: Float32Array): void {
    if (data.length === 0) return;
    const joined = new Float32Array(this.features.length + data.length);
    joined.set(this.features);
    joined.set(data, this.features.length);
    this.features = joined;
  }

  private free(): void {
    for (const state of this.states) state.dispose();
    this.states = [];
  }
}
