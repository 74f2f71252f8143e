import { ops, type Tensor } from "../torch/index.ts";
import { Module } from "./module.ts";

/** log(1 + exp(x - 1)) - 0.08 x - 0.313261687. Training keeps its derivative in 8 bits. Source: Zipformer (arXiv 2310.11230), section 3.4. */
export class SwooshR extends Module {
  /** @param x any shape */
  forward(x: Tensor): Tensor {
    return this.training ? ops.swooshR(x, this.generator) : ops.swooshRExact(x);
  }
}

/** log(1 + exp(x - 4)) - 0.08 x - 0.035. Training keeps its derivative in 8 bits. */
export class SwooshL extends Module {
  /** @param x any shape */
  forward(x: Tensor): Tensor {
    return this.training ? ops.swooshL(x, this.generator) : ops.swooshLExact(x);
  }
}
