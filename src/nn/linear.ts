import { ops, type Tensor } from "../torch/index.ts";
import { type Init, weightAndBias } from "./init.ts";
import { Module, type Parameter } from "./module.ts";
import { expectChannels } from "./shapes.ts";

/** Options of Linear. */
export interface LinearOptions extends Init {
  inFeatures: number;
  outFeatures: number;
  bias?: boolean;
  /** Smaller initial values; see `weightAndBias`. */
  initialScale?: number;
}

/** y = x W^T + b. With `initialScale` this is icefall's ScaledLinear. */
export class Linear extends Module {
  readonly weight: Parameter; // (out, in)
  readonly bias: Parameter | null; // (out)
  readonly inFeatures: number;
  readonly outFeatures: number;

  constructor({ inFeatures, outFeatures, bias = true, initialScale, generator }: LinearOptions) {
    super();
    this.inFeatures = inFeatures;
    this.outFeatures = outFeatures;
    const init = weightAndBias([outFeatures, inFeatures], { generator, initialScale });
    this.weight = this.parameter("weight", init.weight);
    this.bias = bias ? this.parameter("bias", init.bias) : null;
  }

  /**
   * @param x (..., in)
   * @returns (..., out)
   * @throws ShapeError when the last dimension is not `inFeatures`
   */
  forward(x: Tensor): Tensor {
    expectChannels("Linear", x, this.inFeatures);
    return ops.linear(x, this.weight, this.bias);
  }
}
