import { embedding, randn, type Tensor } from "../torch/index.ts";
import type { Init } from "./init.ts";
import { Module, type Parameter } from "./module.ts";

/** A vector for each of a vocabulary's ids. */
export class Embedding extends Module {
  readonly weight: Parameter; // (V, D)

  constructor({ vocabSize, dim, generator }: Init & { vocabSize: number; dim: number }) {
    super();
    this.weight = this.parameter("weight", randn([vocabSize, dim], { generator, device: generator.device }));
  }

  /** @param ids int64, any shape, in [0, V) @returns (..., D) */
  forward(ids: Tensor): Tensor {
    return embedding(this.weight, ids);
  }
}
