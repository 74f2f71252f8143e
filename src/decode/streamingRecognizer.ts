/** Speech to text while it is spoken, with a causal transducer. */
import { type Cut, cutSamples, prefetch } from "../data/index.ts";
import { type ChunkChoice, type OpenCheckpointOptions, type StreamingEncoder, stackStates, type TransducerHead, unstackStates } from "../models/index.ts";
import { fromTypedArray, noGrad, scope } from "../torch/index.ts";
import { ConfigError, placed, SeracError } from "../util/errors.ts";
import { transducerGreedySearch } from "./greedy.ts";
import { RecognitionStream } from "./recognitionStream.ts";
import { tailFrames as icefallTail, Recognizer, type Transcript } from "./recognizer.ts";

/** How to recognise: the chunks, in frames at 50 Hz, are among those of training. */
export interface StreamingRecognizerOptions extends ChunkChoice {
  /** Frames of silence of 10 ms after the end of a stream, which last words need; 30 by default, as in icefall's streaming_decode.py. */
  tailFrames?: number;
}

/**
 * Recognises streams of audio chunk by chunk, many at once, by greedy search.
 * ```ts
 * const recognizer = StreamingRecognizer.load("exp/epoch-30.pt", { chunkSize: 32, leftContextFrames: 128 });
 * const stream = recognizer.createStream();
 * for await (const samples of microphone) { stream.accept(samples); recognizer.decode([stream]); show(stream.text); }
 * stream.finish();
 * recognizer.decode([stream]);
 * ```
 * A stream's result depends neither on how its samples come nor on the streams beside it: it is that of the whole recording, encoded with the same
 * chunks. Source: icefall zipformer/streaming_decode.py, but with the features of training.
 */
export class StreamingRecognizer {
  /** Hz, of the samples that streams take. */
  readonly sampleRate: number;
  readonly encoder: StreamingEncoder;
  private readonly recognizer: Recognizer;
  private readonly transducer: TransducerHead;
  private readonly tailFrames: number;

  /**
   * @param recognizer whose model it uses, and frees
   * @throws ConfigError for a model that is not causal or has no transducer, and for chunks that it cannot have
   */
  constructor(recognizer: Recognizer, { chunkSize, leftContextFrames, tailFrames = icefallTail }: StreamingRecognizerOptions) {
    const { model, features } = recognizer;
    if (!model.transducer) throw new ConfigError("CONFIG_BAD_VALUE", { message: "the model has no transducer, by which streams are decoded", fix: "recognise whole recordings" });
    if (!Number.isInteger(tailFrames) || tailFrames < 0) throw new ConfigError("CONFIG_BAD_VALUE", { at: "tailFrames", message: `${tailFrames} is no number of frames` });
    this.encoder = model.streaming({ chunkSize, leftContextFrames });
    this.transducer = model.transducer;
    this.recognizer = recognizer;
    this.sampleRate = features.sampleRate;
    this.tailFrames = tailFrames;
  }

  /** Loads an epoch-N.pt file. @throws CheckpointError; ConfigError */
  static load(path: string, { chunkSize, leftContextFrames, tailFrames, ...options }: StreamingRecognizerOptions & OpenCheckpointOptions): StreamingRecognizer {
    const recognizer = Recognizer.load(path, options);
    try {
      return new StreamingRecognizer(recognizer, { chunkSize, leftContextFrames, tailFrames });
    } catch (error) {
      recognizer.dispose();
      throw error;
    }
  }

  /** A stream at its start. */
  createStream(): RecognitionStream {
    const { encoder, sampleRate, tailFrames } = this;
    const { tokenizer, features } = this.recognizer;
    return new RecognitionStream({ encoder, tokenizer, sampleRate, featureDim: features.featureDim, tailFrames });
  }

  /** Decodes all chunks that are ready, those of all streams together, on this thread. @returns how many chunks there were */
  decode(streams: readonly RecognitionStream[]): number {
    let chunks = 0;
    for (;;) {
      const stepped = this.step(streams);
      if (stepped === 0) return chunks;
      chunks += stepped;
    }
  }

  /** Decodes one chunk of every stream that has one ready. @returns how many have */
  step(streams: readonly RecognitionStream[]): number {
    const ready = [...new Set(streams)].filter((stream) => stream.ready);
    if (ready.length > 0) this.stepReady(ready);
    return ready.length;
  }

  /**
   * Recognises cuts as streams, of which `numDecodeStreams` are decoded together: as icefall's streaming_decode.py does, to measure what streaming costs.
   * @param onError takes utterances whose audio cannot be used; without it the first one throws
   */
  async *transcribeCuts(
    cuts: readonly Cut[],
    { numDecodeStreams = 2000, onError }: { numDecodeStreams?: number; onError?: (error: SeracError, cut: Cut) => void } = {},
  ): AsyncGenerator<{ cut: Cut; transcript: Transcript }> {
    const { features } = this.recognizer;
    let open: { cut: Cut; stream: RecognitionStream }[] = [];
    const refuse = (thrown: unknown, cut: Cut): undefined => {
      const error = thrown instanceof SeracError ? placed(thrown, cut.audioPath) : thrown;
      if (!onError || !(error instanceof SeracError)) throw error;
      onError(error, cut);
    };
    const read = (cut: Cut) =>
      cutSamples(cut, features).then(
        (samples) => ({ cut, samples }),
        (error: unknown) => refuse(error, cut),
      );
    const start = (cut: Cut, samples: Float32Array): void => {
      const stream = this.createStream();
      try {
        stream.accept(samples);
      } catch (error) {
        stream.dispose();
        refuse(error, cut);
        return;
      }
      stream.finish();
      open.push({ cut, stream });
    };
    const step = () => {
      this.step(open.map(({ stream }) => stream));
      const done = open.filter(({ stream }) => stream.done);
      open = open.filter(({ stream }) => !stream.done);
      return done.map(({ cut, stream }) => ({ cut, transcript: { text: stream.text, tokens: stream.tokens, duration: stream.duration } }));
    };
    try {
      for await (const item of prefetch(cuts, 4, read)) {
        if (item) start(item.cut, item.samples);
        while (open.length >= numDecodeStreams) yield* step();
      }
      while (open.length > 0) yield* step();
    } finally {
      for (const { stream } of open) stream.dispose();
    }
  }

  /** One chunk of every stream, all of which have one. */
  private stepReady(streams: readonly RecognitionStream[]): void {
    const { encoder, transducer } = this;
    const { featureDim } = this.recognizer.features;
    const inputs = streams.map((stream) => stream.next());
    const size = encoder.chunkFrames * featureDim;
    const features = new Float32Array(streams.length * size);
    for (const [n, input] of inputs.entries()) features.set(input.features, n * size);
    const [first] = inputs as [(typeof inputs)[number]];
    noGrad(() =>
      scope(() => {
        const { device } = transducer.joiner.outputLinear.weight;
        const x = fromTypedArray(features, [streams.length, encoder.chunkFrames, featureDim], { device });
        const { encoderOut, states } = encoder.step(x, inputs.length === 1 ? first.states : stackStates(inputs.map((input) => input.states)));
        const frames = encoderOut.size(1);
        const found = transducerGreedySearch(
          transducer,
          encoderOut,
          inputs.map(() => frames),
          { before: inputs, blankId: this.recognizer.model.blankId, maxSymPerFrame: this.recognizer.maxSymPerFrame },
        );
        const after = inputs.length === 1 ? [states] : unstackStates(states);
        for (const [n, stream] of streams.entries()) {
          const { tokens, frames: tokenFrames } = found[n] as (typeof found)[number];
          stream.advance({ states: after[n] as typeof states, tokens, frames: tokenFrames, encoderFrames: frames });
        }
      }),
    );
  }

  /** Frees the model. Streams are freed when they are done, or by themselves. */
  dispose(): void {
    this.recognizer.dispose();
  }
}
