import { ops, rand, type Tensor } from "../torch/index.ts";
import { Module } from "./module.ts";
import { type Schedule, scheduled } from "./scheduledFloat.ts";

/** Sets elements to zero with probability p while training, and scales the others by 1 / (1 - p). */
export class Dropout extends Module {
  p: Schedule;

  constructor({ p }: { p: Schedule }) {
    super();
    this.p = p;
  }

  /** @param x any shape */
  forward(x: Tensor): Tensor {
    if (!this.training) return x;
    const p = scheduled(this.p, this.run);
    if (p === 0) return x;
    const mask = rand(x.shape, { generator: this.generator, device: x.device }).gt(p).to({ dtype: x.dtype });
    return x.mul(mask.mul_(1 / (1 - p)));
  }
}

/** Dropout whose mask is the same along one dimension. Source: icefall zipformer/scaling.py (Dropout3). */
export class SharedDropout extends Module {
  p: Schedule;
  private readonly sharedDim: number;

  constructor({ p, sharedDim }: { p: Schedule; sharedDim: number }) {
    super();
    this.p = p;
    this.sharedDim = sharedDim;
  }

  /** @param x any shape that has the shared dimension */
  forward(x: Tensor): Tensor {
    if (!this.training) return x;
    const p = scheduled(this.p, this.run);
    return p === 0 ? x : ops.dropoutShared(x, p, this.sharedDim, this.generator);
  }
}
