import { expectShape } from "../nn/index.ts";
import { noGrad, scope, type Tensor, zeros } from "../torch/index.ts";
import { ConfigError, ShapeError } from "../util/errors.ts";
import { type ChunkChoice, type Conv2dSubsampling, lookAheadFrames, type StreamingStates, type Zipformer2 } from "./zipformer/index.ts";

/** The value that stands for silence after the end of features: ln(1e-10), lhotse's and icefall's. */
export const featurePadding = Math.fround(Math.log(1e-10));

/** What one step gives. */
export interface StreamingOutput {
  /** (N, chunkSize / 2, C), at 25 Hz */
  encoderOut: Tensor;
  /** To give to the next step. */
  states: Tensor[];
}

/**
 * Front end and encoder of a causal model, chunk by chunk: together the outputs are those of `forwardEncoder` with the same chunks over the whole
 * features, as far as these have their look-ahead.
 * A step takes `chunkFrames` frames of features and the next one starts `shift` frames later. After the end of the audio features are padded with
 * `featurePadding`. Memory belongs to the caller: free the old states when a step has given new ones, or run in a scope.
 * Source: icefall zipformer/streaming_decode.py (streaming_forward).
 */
export class StreamingEncoder {
  /** Frames of a chunk at 50 Hz. */
  readonly chunkSize: number;
  /** Frames of left context at 50 Hz. */
  readonly leftContextFrames: number;
  /** Feature frames of a step: those of the chunk, and the 13 after them. */
  readonly chunkFrames: number;
  /** Feature frames from one step to the next. */
  readonly shift: number;
  private readonly frontEnd: Conv2dSubsampling;
  private readonly encoder: Zipformer2;

  /** @throws ConfigError for a model that is not causal, and for chunks that it cannot have */
  constructor(frontEnd: Conv2dSubsampling, encoder: Zipformer2, { chunkSize, leftContextFrames }: ChunkChoice) {
    encoder.checkStreaming({ chunkSize, leftContextFrames });
    this.frontEnd = frontEnd;
    this.encoder = encoder;
    this.chunkSize = chunkSize;
    this.leftContextFrames = leftContextFrames;
    this.shift = 2 * chunkSize;
    this.chunkFrames = this.shift + lookAheadFrames;
  }

  /** Shapes of the states of N streams, in their order; see `streamingStates.ts`. */
  stateShapes(batch = 1): number[][] {
    return [...this.encoder.streamingStateShapes(batch, this.leftContextFrames), this.frontEnd.streamingStateShape(batch), [batch]];
  }

  /** The states before the first chunk, of N streams. */
  initStates(batch = 1): Tensor[] {
    const { dtype, device } = this.frontEnd.out.weight;
    return scope(() => {
      const shapes = this.stateShapes(batch);
      return shapes.map((shape, i) => zeros(shape, { dtype: i === shapes.length - 1 ? "int32" : dtype, device }));
    });
  }

  /**
   * One chunk of N streams, which may be at different places.
   * @param features (N, chunkFrames, F)
   * @param states of `stateShapes(N)`; they stay as they are
   * @throws ShapeError for other shapes; ConfigError while training
   */
  step(features: Tensor, states: StreamingStates): StreamingOutput {
    const { frontEnd, encoder, leftContextFrames } = this;
    if (encoder.training) throw new ConfigError("CONFIG_BAD_VALUE", { at: "StreamingEncoder", message: "the model is training", fix: "call eval() first" });
    expectShape("StreamingEncoder", features, ["N", this.chunkFrames, frontEnd.featureDim]);
    this.checkStates(states, features.size(0));
    const [cached, processed] = states.slice(-2) as [Tensor, Tensor];
    return noGrad(() =>
      scope(() => {
        const embedded = frontEnd.streamingForward(features, cached);
        const encoded = encoder.streamingForward(embedded.y.transpose(0, 1), states.slice(0, -2), { processed, leftContextFrames });
        return { encoderOut: encoded.x.transpose(0, 1), states: [...encoded.states, embedded.last, processed.add(this.chunkSize)] };
      }),
    );
  }

  private checkStates(states: StreamingStates, batch: number): void {
    const shapes = this.stateShapes(batch);
    const at = "StreamingEncoder";
    if (states.length !== shapes.length) throw new ShapeError("SHAPE_MISMATCH", { at, message: `got ${states.length} states, expected ${shapes.length}` });
    for (const [i, shape] of shapes.entries()) expectShape(`${at}, state ${i}`, states[i] as Tensor, shape);
  }
}
