import { type Init, Linear, Module } from "../nn/index.ts";
import { ops, scope, type Tensor } from "../torch/index.ts";

/** Options of Joiner. */
export interface JoinerOptions extends Init {
  encoderDim: number;
  decoderDim: number;
  joinerDim: number;
  vocabSize: number;
}

/** Brings encoder and decoder together: logits = W tanh(E encoder + D decoder). Source: icefall zipformer/joiner.py. */
export class Joiner extends Module {
  readonly encoderProj: Linear;
  readonly decoderProj: Linear;
  readonly outputLinear: Linear;

  constructor({ encoderDim, decoderDim, joinerDim, vocabSize, generator }: JoinerOptions) {
    super();
    this.encoderProj = this.child("encoder_proj", new Linear({ inFeatures: encoderDim, outFeatures: joinerDim, initialScale: 0.25, generator }));
    this.decoderProj = this.child("decoder_proj", new Linear({ inFeatures: decoderDim, outFeatures: joinerDim, initialScale: 0.25, generator }));
    this.outputLinear = this.child("output_linear", new Linear({ inFeatures: joinerDim, outFeatures: vocabSize, generator }));
  }

  /**
   * @param encoderOut (..., encoderDim) or, projected, (..., J)
   * @param decoderOut of a shape that broadcasts with encoderOut's, up to the last dimension
   * @param project false when both have been through `encoderProj` and `decoderProj`
   * @returns logits (..., V)
   */
  forward(encoderOut: Tensor, decoderOut: Tensor, { project = true }: { project?: boolean } = {}): Tensor {
    return scope(() => {
      const sum = project ? this.encoderProj.forward(encoderOut).add(this.decoderProj.forward(decoderOut)) : encoderOut.add(decoderOut);
      return this.outputLinear.forward(sum.tanh());
    });
  }

  /**
   * Log-probabilities at the cells that pruning kept. Neither the sums that {@link forward} would be given nor its tanh are held for all cells.
   * @param encoderOut (N, T, J) and `decoderOut` (N, S + 1, J), through `encoderProj` and `decoderProj`
   * @param ranges (N, T, R) int64 rows of decoderOut
   * @param symbols (N, T, R) int64 the symbol that is asked for in each cell
   * @returns (N, T, R) each, float32 (float64 of float64): of the symbols, and of blank
   */
  logProbsAt(encoderOut: Tensor, decoderOut: Tensor, { ranges, symbols, blank }: { ranges: Tensor; symbols: Tensor; blank: number }): [symbols: Tensor, blanks: Tensor] {
    const { weight, bias } = this.outputLinear;
    return ops.joinerLogProbs(encoderOut, decoderOut, ranges, weight, bias, symbols, blank);
  }
}
