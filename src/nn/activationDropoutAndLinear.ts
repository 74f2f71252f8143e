import { ops, type Tensor } from "../torch/index.ts";
import { type Init, weightAndBias } from "./init.ts";
import { Module, type Parameter } from "./module.ts";
import { type Schedule, scheduled } from "./scheduledFloat.ts";

/** Options of ActivationDropoutAndLinear. */
export interface ActivationDropoutAndLinearOptions extends Init {
  inFeatures: number;
  outFeatures: number;
  activation: "SwooshL" | "SwooshR";
  dropout?: Schedule;
  /** The dropout mask is the same along this dimension. */
  sharedDim?: number;
  initialScale: number;
}

/** linear(dropout(activation(x))), keeping nothing but x for the backward pass. Source: icefall zipformer/scaling.py. */
export class ActivationDropoutAndLinear extends Module {
  readonly weight: Parameter; // (out, in)
  readonly bias: Parameter; // (out)
  dropout: Schedule;
  private readonly activation: "SwooshL" | "SwooshR";
  private readonly sharedDim: number | null;

  constructor({ inFeatures, outFeatures, activation, dropout = 0, sharedDim, initialScale, generator }: ActivationDropoutAndLinearOptions) {
    super();
    this.activation = activation;
    this.dropout = dropout;
    this.sharedDim = sharedDim ?? null;
    const init = weightAndBias([outFeatures, inFeatures], { generator, initialScale });
    this.weight = this.parameter("weight", init.weight);
    this.bias = this.parameter("bias", init.bias);
  }

  /** @param x (..., in) @returns (..., out) */
  forward(x: Tensor): Tensor {
    const p = this.training ? scheduled(this.dropout, this.run) : 0;
    const { weight, bias, activation, sharedDim, training } = this;
    return ops.activationDropoutLinear(x, weight, bias, activation, p, sharedDim, training, p > 0 ? this.generator : null);
  }
}
