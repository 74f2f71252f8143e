import { Dropout, Module } from "../../nn/index.ts";
import { arange, cat, noGrad, scope, type Tensor } from "../../torch/index.ts";

/**
 * The table of encodings of the offsets -(frames - 1) .. frames - 1.
 * Offsets are compressed, so that far ones differ less than near ones, and mapped to an angle; columns are its Fourier series.
 * @param dim D, even
 * @returns (2 frames - 1, D), float32
 */
export function relPositionTable(frames: number, dim: number, { device = "cpu", lengthFactor = 1 }: { device?: string; lengthFactor?: number } = {}): Tensor {
  return scope(() => {
    const compression = Math.sqrt(dim);
    const x = arange(1 - frames, frames, { dtype: "float32", device }).unsqueeze(1);
    const compressed = x
      .sign()
      .mul(x.abs().add(compression).log().sub(Math.log(compression)))
      .mul(compression);
    const angle = compressed.mul((2 * Math.PI) / (lengthFactor * dim)).atan(); // (2 frames - 1, 1)
    const frequencies = arange(1, dim / 2 + 1, { dtype: "float32", device }).unsqueeze(0);
    const phase = angle.mul(frequencies); // (2 frames - 1, D / 2)
    const table = cat([phase.cos().unsqueeze(2), phase.sin().unsqueeze(2)], 2).flatten(1); // cosines in even, sines in odd columns
    table.select(1, dim - 1).fill_(1); // a constant in place of the last sine
    return table;
  });
}

/** Gives the encodings of the offsets between frames; keeps one table. Source: icefall zipformer/zipformer.py (CompactRelPositionalEncoding). */
export class CompactRelPositionalEncoding extends Module {
  private readonly dim: number;
  private readonly dropout: Dropout;
  private table: Tensor | undefined;
  private frames = 0;

  constructor({ dim, dropout = 0.15 }: { dim: number; dropout?: number }) {
    super();
    this.dim = dim;
    this.dropout = this.child("dropout", new Dropout({ p: dropout }));
  }

  /**
   * @param frames T
   * @param left frames of context before the first one
   * @returns (1, left + 2 T - 1, D): the offsets source - target from -(left + T - 1) to T - 1
   */
  forward(frames: number, { left = 0, device = "cpu" }: { left?: number; device?: string } = {}): Tensor {
    const reach = frames + left;
    if (!this.table || this.frames < reach || this.table.device !== device) {
      this.frames = Math.max(1000, reach);
      this.table = this.hold(
        "table",
        noGrad(() => scope(() => relPositionTable(this.frames, this.dim, { device }))),
      );
    }
    const slice = this.table.slice(0, this.frames - reach, this.frames - 1 + frames);
    return this.dropout.forward(slice.unsqueeze(0));
  }
}
