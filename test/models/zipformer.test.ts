import { describe, expect, test } from "vitest";
import {
  AttentionWeights,
  CompactRelPositionalEncoding,
  Conv2dSubsampling,
  ConvolutionModule,
  Downsample,
  Feedforward,
  NonlinAttention,
  relPositionTable,
  SelfAttention,
  Zipformer2,
} from "../../src/models/index.ts";
import { fromTypedArray, Generator, noGrad, ones, type Tensor, zeros } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";
import { golden, wave } from "../golden.ts";
import { fillByWaves, under } from "./helpers.ts";

const generator = new Generator(1);
const g = golden("submodules").tensors;
const at = (name: string): Tensor => g[name] as Tensor;
const waves = (shape: readonly number[]): Tensor => fromTypedArray(Float32Array.from(wave(shape)), shape);

describe("parts equal the reference", () => {
  test("front end", () => {
    const embed = new Conv2dSubsampling({ featureDim: 80, outChannels: 48, generator });
    embed.loadStateDict(under(g, "conv2d_subsampling.param."));
    const { x, lengths } = embed.forward(at("conv2d_subsampling.x"), at("conv2d_subsampling.x_lens").toArray());
    expect(lengths).toEqual(at("conv2d_subsampling.y_lens").toArray());
    expect(x).toBeAllClose(at("conv2d_subsampling.y"));
  });

  test("convolution, also causal and in chunks", () => {
    for (const [name, output, causal, chunkSize] of [
      ["full", "y", false, -1],
      ["causal", "y", true, -1],
      ["causal", "y_chunk8", true, 8],
    ] as const) {
      const module = new ConvolutionModule({ channels: 24, kernelSize: 15, causal, generator });
      module.loadStateDict(under(g, `conv_module.${name}.param.`));
      expect(module.forward(at(`conv_module.${name}.x`), { padding: at(`conv_module.${name}.mask`).to({ dtype: "bool" }), chunkSize }), output).toBeAllClose(
        at(`conv_module.${name}.${output}`),
      );
    }
  });

  const x = at("attn_weights.x");
  const weights = at("attn_weights.y"); // (h, N, T, T)
  const headFirst = weights.reshape([8, 19, 19]);

  test("attention weights", () => {
    const module = new AttentionWeights({ channels: 24, posDim: 48, heads: 4, queryHeadDim: 8, posHeadDim: 4, generator });
    module.loadStateDict(under(g, "attn_weights.param."));
    const mask = at("attn_weights.key_padding_mask").to({ dtype: "bool" }).unsqueeze(1);
    const { weights, first } = module.forward(x, at("attn_weights.pos_emb"), mask);
    expect(weights).toBeAllClose(headFirst);
    expect(first).toBeAllClose(at("attn_weights.y").select(0, 0));
  });

  test("self-attention, attention of gated values, feed-forward", () => {
    const self = new SelfAttention({ channels: 24, heads: 4, valueHeadDim: 12, generator });
    self.loadStateDict(under(g, "self_attn.param."));
    expect(self.forward(x, headFirst)).toBeAllClose(at("self_attn.y"));
    const nonlin = new NonlinAttention({ channels: 24, hidden: 18, generator });
    nonlin.loadStateDict(under(g, "nonlin_attn.param."));
    expect(nonlin.forward(x, weights.select(0, 0))).toBeAllClose(at("nonlin_attn.y"));
    const feedforward = new Feedforward({ channels: 24, hidden: 32, dropout: 0.3, generator });
    feedforward.loadStateDict(under(g, "feed_forward.param."));
    expect(feedforward.forward(x)).toBeAllClose(at("feed_forward.y"));
  });

  test("positions, also with left context, and downsampling", () => {
    const m = golden("modules").tensors;
    const positions = new CompactRelPositionalEncoding({ dim: 48 });
    expect(positions.forward(21)).toBeAllClose(m["pos_enc.T21"]);
    expect(positions.forward(21, { left: 16 })).toBeAllClose(m["pos_enc.T21.left16"]);
    expect(positions.forward(1500).slice(1, 1500 - 21, 1500 + 20)).toBeAllClose(m["pos_enc.T21"]); // a longer table holds the same rows
    for (const factor of [2, 3]) {
      const module = new Downsample({ factor, generator });
      module.loadStateDict(new Map([["bias", m[`downsample${factor}.bias`] as Tensor]]));
      expect(module.forward(m[`downsample${factor}.x`] as Tensor)).toBeAllClose(m[`downsample${factor}.y`]);
    }
  });
});

test("position encodings of 8 columns as printed", () => {
  const table = relPositionTable(10, 8); // row 9 is offset 0
  const minus3 = [0.528535, -0.848912, -0.441302, -0.897359, -0.995022, -0.099658, -0.610505, 1];
  expect(table.select(0, 6)).toBeAllClose(minus3);
  expect(table.select(0, 9)).toBeAllClose([1, 0, 1, 0, 1, 0, 1, 1]);
  expect(table.select(0, 12)).toBeAllClose(minus3.map((v, i) => (i % 2 === 1 && i < 7 ? -v : v)));
});

const tiny = {
  downsamplingFactor: [1, 2],
  numEncoderLayers: [1, 2],
  encoderDim: [32, 48],
  encoderUnmaskedDim: [24, 32],
  queryHeadDim: 8,
  posHeadDim: 4,
  valueHeadDim: 4,
  posDim: 16,
  numHeads: 4,
  feedforwardDim: [64, 96],
  cnnModuleKernel: [7, 5],
};

test("a tiny encoder has the printed values, with and without chunks", () => {
  noGrad(() => {
    const embed = new Conv2dSubsampling({ featureDim: 80, outChannels: 32, generator });
    fillByWaves(embed, wave);
    const embedded = embed.forward(waves([2, 39, 80]), [39, 31]);
    expect(embedded.lengths).toEqual([16, 12]);
    expect(embedded.x.sum().item()).toBeCloseTo(154.948734, 2);
    expect(embedded.x.abs().sum().item()).toBeCloseTo(728.951164, 2);
    expect(embedded.x.toArray().slice(0, 4)).toBeAllClose([0.644741, 0.214739, 0.156869, 0.006571]);
    for (const [causal, sum, absolute, first] of [
      [false, 63.057704, 546.928726, [0.228904, 0.785584, -0.360215, -0.505742]],
      [true, 96.812184, 523.807128, [0.852545, 0.559564, 0.110434, -0.995697]],
    ] as const) {
      const encoder = new Zipformer2({ ...tiny, causal, chunkSize: [4], leftContextFrames: [8], generator });
      fillByWaves(encoder, wave);
      const { x, lengths } = encoder.forward(embedded.x.transpose(0, 1), embedded.lengths);
      expect(x.shape).toEqual([8, 2, 48]);
      expect(lengths).toEqual([8, 6]);
      expect(x.sum().item()).toBeCloseTo(sum, 2);
      expect(x.abs().sum().item()).toBeCloseTo(absolute, 2);
      expect(x.transpose(0, 1).reshape([-1]).toArray().slice(0, 4)).toBeAllClose(first);
    }
  });
});

test("a chunk's output does not depend on later chunks", () => {
  noGrad(() => {
    const encoder = new Zipformer2({ ...tiny, causal: true, chunkSize: [4], leftContextFrames: [8], generator });
    const x = waves([16, 1, 32]);
    const changed = x.clone();
    changed.slice(0, 12).fill_(3);
    const a = encoder.forward(x, [16]).x;
    const b = encoder.forward(changed, [16]).x;
    expect(a.slice(0, 0, 6)).toBeAllClose(b.slice(0, 0, 6));
    expect(a.slice(0, 6).sub(b.slice(0, 6)).abs().max().item()).toBeGreaterThan(1e-3);
  });
});

test("training draws chunk sizes and feature masks", () => {
  const encoder = new Zipformer2({ ...tiny, causal: true, chunkSize: [4, 8, -1], leftContextFrames: [8, -1], generator });
  const inner = encoder as unknown as { chooseChunks(): { size: number; left: number }; featureMasks(batch: number, like: Tensor): (Tensor | null)[] };
  encoder.train({ random: new Random(2), generator: new Generator(2) });
  const seen = new Set<string>();
  for (let i = 0; i < 200; i++) {
    const { size, left } = inner.chooseChunks();
    seen.add(`${size} ${left}`);
  }
  expect([...seen].sort()).toEqual(["-1 -1", "4 -1", "4 2", "8 -1", "8 1"]);
  const kept = zeros([48]);
  for (let i = 0; i < 200; i++) kept.add_(inner.featureMasks(8, kept)[1]?.sum([0, 1]) ?? ones([48]).mul(8));
  const share = kept.div(1600).toArray();
  expect(share.slice(0, 32)).toEqual(new Array(32).fill(1));
  expect(Math.abs((share[32] as number) - 0.875)).toBeLessThan(0.05);
  expect(Math.abs((share[40] as number) - 0.875 ** 2)).toBeLessThan(0.06);
});

test("options that contradict each other are named", () => {
  expect(() => new Zipformer2({ ...tiny, encoderDim: [32, 48, 64], generator })).toThrow(/encoderDim/);
  expect(() => new Zipformer2({ ...tiny, cnnModuleKernel: [6, 5], generator })).toThrow(/cnnModuleKernel/);
  expect(() => new Zipformer2({ ...tiny, causal: true, chunkSize: [3], generator })).toThrow(/chunkSize/);
  expect(() => new Zipformer2({ ...tiny, causal: true, chunkSize: [4], leftContextFrames: [1], cnnModuleKernel: [31, 31], generator })).toThrow(/leftContextFrames/);
});

test("bad shapes are named", () => {
  const embed = new Conv2dSubsampling({ featureDim: 80, outChannels: 32, generator });
  expect(() => embed.forward(zeros([2, 39, 40]), [39, 39])).toThrow(/SHAPE_MISMATCH/);
  expect(() => embed.forward(zeros([2, 39, 80]), [39])).toThrow(/1 lengths for a batch of 2/);
  expect(() => embed.forward(zeros([2, 39, 80]), [39, 40])).toThrow(/length of 40/);
  expect(() => embed.forward(zeros([2, 39, 80]), [39, 8])).toThrow(/at least 9/);
});
