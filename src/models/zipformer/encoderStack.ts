import { Bypass, type Init, Module, ModuleList } from "../../nn/index.ts";
import { scope, type Tensor } from "../../torch/index.ts";
import { EncoderLayer, type EncoderLayerOptions, type StackContext } from "./encoderLayer.ts";
import { CompactRelPositionalEncoding } from "./relPositionalEncoding.ts";
import { Downsample } from "./resample.ts";
import { cachesOf, cacheTensors, layerStateShapes } from "./streamingStates.ts";

/** What a stack gets besides its input: all at the stack's own frame rate. */
export interface StackInput extends Omit<StackContext, "posEmb"> {
  /** (1, N, C) of 0 and 1, multiplied before the first and after every layer; null for none. */
  featureMask: Tensor | null;
}

/** Options of a stack: those of its layers, and the rates at which they are skipped, one a layer. */
export interface EncoderStackOptions extends Omit<EncoderLayerOptions, "bypassSkipRate"> {
  bypassSkipRates: readonly EncoderLayerOptions["bypassSkipRate"][];
}

/** Layers of one frame rate. Source: icefall zipformer/zipformer.py (Zipformer2Encoder). */
export class EncoderStack extends Module {
  private readonly layers: ModuleList<EncoderLayer>;
  private readonly positions: CompactRelPositionalEncoding;

  constructor({ bypassSkipRates, ...options }: EncoderStackOptions) {
    super();
    this.positions = this.child("encoder_pos", new CompactRelPositionalEncoding({ dim: options.posDim }));
    this.layers = this.child("layers", new ModuleList(bypassSkipRates.map((bypassSkipRate) => new EncoderLayer({ ...options, bypassSkipRate }))));
  }

  /** @param x (T, N, C) @returns (T, N, C) */
  forward(x: Tensor, { featureMask, ...masks }: StackInput): Tensor {
    return scope(() => {
      const context: StackContext = { ...masks, posEmb: this.positions.forward(x.size(0), { device: x.device }) };
      let src = featureMask ? x.mul(featureMask) : x;
      for (const layer of this.layers.items) {
        src = layer.forward(src, context);
        if (featureMask) src = src.mul(featureMask);
      }
      return src;
    });
  }

  /** Shapes of the states. @param left frames of left context, at this stack's rate */
  streamingStateShapes(batch: number, left: number): number[][] {
    return this.layers.items.flatMap((layer) => layerStateShapes(layer.cacheSizes, batch, left));
  }

  /** @param x (T, N, C), a whole chunk @param states of `streamingStateShapes` @param mask (N, L + T) bool, true = not attended to */
  streamingForward(x: Tensor, states: readonly Tensor[], mask: Tensor): StreamedChunk {
    return scope(() => {
      const frames = x.size(0);
      const context = { mask, posEmb: this.positions.forward(frames, { left: mask.size(1) - frames, device: x.device }) };
      const after: Tensor[] = [];
      let src = x;
      for (const [i, cache] of cachesOf(states).entries()) {
        const layer = this.layers.items[i] as EncoderLayer;
        const done = layer.streamingForward(src, cache, context);
        src = done.x;
        after.push(...cacheTensors(done.cache));
      }
      return { x: src, states: after };
    });
  }
}

/** A chunk's way through a stack, and the states after it; see `streamingStates.ts` for their order. */
export interface StreamedChunk {
  /** (T, N, C) */
  x: Tensor;
  /** Six of every layer. */
  states: Tensor[];
}

/** A stack at a lower frame rate, around which a bypass leads. Source: icefall zipformer/zipformer.py (DownsampledZipformer2Encoder). */
export class DownsampledEncoderStack extends Module {
  private readonly downsample: Downsample;
  private readonly encoder: EncoderStack;
  private readonly combiner: Bypass;

  constructor({ factor, channels, generator, encoder }: Init & { factor: number; channels: number; encoder: EncoderStack }) {
    super();
    this.downsample = this.child("downsample", new Downsample({ factor, generator }));
    this.encoder = this.child("encoder", encoder);
    this.combiner = this.child("out_combiner", new Bypass({ channels, generator }));
  }

  /** @param x (T, N, C), at the full rate @param input at the stack's rate @returns (T, N, C) */
  forward(x: Tensor, input: StackInput): Tensor {
    return scope(() => {
      const inner = this.encoder.forward(this.downsample.forward(x), input);
      return this.combiner.forward(x, inner, { repeat: this.downsample.factor });
    });
  }

  /** As the stack inside's. */
  streamingStateShapes(batch: number, left: number): number[][] {
    return this.encoder.streamingStateShapes(batch, left);
  }

  /** @param x (T, N, C), a whole chunk at the full rate, T a multiple of the factor @param mask at the stack's rate */
  streamingForward(x: Tensor, states: readonly Tensor[], mask: Tensor): StreamedChunk {
    return scope(() => {
      const inner = this.encoder.streamingForward(this.downsample.forward(x), states, mask);
      return { x: this.combiner.forward(x, inner.x, { repeat: this.downsample.factor }), states: inner.states };
    });
  }
}
