import { describe, expect, onTestFinished, test } from "vitest";
import { AsrModel } from "../../src/models/index.ts";
import { autocast, Generator, liveTensors, noGrad, randn, scope, setComposed, type Tensor, zeros } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";
import { goldenModel, under } from "./helpers.ts";

describe.each(["asr_full", "asr_causal"])("%s", (name) => {
  const { model, tensors, metadata, x, xLens } = goldenModel(name);
  const chunk = JSON.parse(metadata.chunk as string) as { chunk_size: number; left_context_frames: number } | null;
  if (chunk) model.encoder.chunks = { chunkSize: chunk.chunk_size, leftContextFrames: chunk.left_context_frames };

  test("parameters are the reference's, in its order", () => {
    const expected = under(tensors, "param.");
    const own = model.stateDict();
    expect([...own.keys()]).toEqual([...expected.keys()]);
    for (const [key, parameter] of own) expect(parameter.shape, key).toEqual(expected.get(key)?.shape);
  });

  test.each([false, true])("embedding, encoder and CTC output equal the reference; composed: %s", (asReference) => {
    const before = setComposed(asReference);
    onTestFinished(() => void setComposed(before));
    noGrad(() => {
      const embedded = model.encoderEmbed.forward(x, xLens);
      expect(embedded.lengths).toEqual((tensors.embed_lens as Tensor).toArray());
      expect(embedded.x).toBeAllClose(tensors.embed);
      const { encoderOut, encoderOutLens } = model.forwardEncoder(x, tensors.x_lens as Tensor);
      expect(encoderOutLens).toEqual((tensors.encoder_out_lens as Tensor).toArray());
      expect(encoderOut).toBeAllClose(tensors.encoder_out);
      expect(model.ctcLogProbs(encoderOut)).toBeAllClose(tensors.ctc_log_probs);
    });
  });
});

test("under autocast the CTC output is in single precision, and sums to 1", () => {
  const { model, x, tensors } = goldenModel("asr_full");
  noGrad(() =>
    autocast({ enabled: true, dtype: "bfloat16" }, () => {
      const logProbs = model.ctcLogProbs(model.forwardEncoder(x, tensors.x_lens as Tensor).encoderOut);
      expect(logProbs.dtype).toBe("float32");
      for (const sum of logProbs.exp().sum([2]).flatten().toArray()) expect(Math.abs(sum - 1)).toBeLessThan(1e-5);
    }),
  );
});

const sizes = {
  S: { numEncoderLayers: [2, 2, 2, 2, 2, 2], feedforwardDim: [512, 768, 768, 768, 768, 768], encoderDim: [192, 256, 256, 256, 256, 256], encoderUnmaskedDim: 192 },
  M: {},
  L: {
    numEncoderLayers: [2, 2, 4, 5, 4, 2],
    feedforwardDim: [512, 768, 1536, 2048, 1536, 768],
    encoderDim: [192, 256, 512, 768, 512, 256],
    encoderUnmaskedDim: [192, 192, 256, 320, 256, 192],
  },
};
const heads = {
  transducer: {},
  causal: { causal: true },
  ctc: { useTransducer: false, useCtc: true },
  both: { useCtc: true },
  aed: { useTransducer: false, useCtc: true, useAttentionDecoder: true },
};
const published: Record<keyof typeof sizes, Record<keyof typeof heads, number>> = {
  S: { transducer: 23_285_615, causal: 23_627_887, ctc: 22_118_279, both: 23_414_115, aed: 46_282_107 },
  M: { transducer: 65_549_011, causal: 66_110_931, ctc: 64_250_603, both: 65_805_511, aed: 89_987_295 },
  L: { transducer: 148_439_574, causal: 149_281_046, ctc: 147_010_094, both: 148_824_074, aed: 174_319_650 },
};
const encoderOnly = { S: 21_377_826, M: 63_382_150, L: 146_013_641 };
const tensorCounts = { S: [567, 639], M: [743, 839], L: [875, 989] };

test.each(Object.keys(sizes) as (keyof typeof sizes)[])("parameter counts of size %s are the published ones", (size) => {
  const generator = new Generator(1);
  for (const head of Object.keys(heads) as (keyof typeof heads)[]) {
    const model = scope(() => new AsrModel({ vocabSize: 500, ...sizes[size], ...heads[head], generator }));
    expect(model.parameterCount, head).toBe(published[size][head]);
    if (head === "transducer") expect(model.encoder.parameterCount).toBe(encoderOnly[size]);
    if (head === "transducer") expect(model.parameters().length).toBe(tensorCounts[size][0]);
    if (head === "causal") expect(model.parameters().length).toBe(tensorCounts[size][1]);
    model.dispose();
  }
});

const small = {
  vocabSize: 30,
  numEncoderLayers: [1, 1],
  downsamplingFactor: [1, 2],
  encoderDim: [24, 32],
  encoderUnmaskedDim: [16, 24],
  feedforwardDim: [32, 48],
  numHeads: 4,
  queryHeadDim: 8,
  valueHeadDim: 8,
  cnnModuleKernel: 7,
  frontEndChannels: [4, 8, 16],
  decoderDim: 32,
  joinerDim: 24,
} as const;

test("a model without outputs, and an output that is not there, are named", () => {
  const generator = new Generator(1);
  expect(() => new AsrModel({ ...small, useTransducer: false, generator })).toThrow(/CONFIG_BAD_VALUE/);
  const model = new AsrModel({ ...small, generator });
  expect(() => model.ctcLogProbs(zeros([1, 5, 32]))).toThrow(/useCtc/);
  expect(() => model.forwardEncoder(zeros([1, 40, 79]), [40])).toThrow(/SHAPE_MISMATCH/);
  expect(() => model.transducer?.decoder.forward(zeros([3], { dtype: "int64" }))).toThrow(/SHAPE_MISMATCH/);
});

test("an utterance's output depends neither on the batch it is in, away from its end, nor on the pass", () => {
  noGrad(() => {
    const model = new AsrModel({ ...small, downsamplingFactor: [1, 1], generator: new Generator(1) }).eval();
    const x = randn([2, 80, 80], { generator: new Generator(2) });
    const both = model.forwardEncoder(x, [80, 80]).encoderOut;
    const alone = model.forwardEncoder(x.slice(0, 1, 2), [80]).encoderOut;
    expect(both.slice(0, 1, 2)).toBeAllClose(alone);
    expect(model.forwardEncoder(x, [80, 80]).encoderOut).toBeAllClose(both, { rtol: 0, atol: 0 });
  });
});

test("decoder: padding on the left equals a context of no tokens", () => {
  const model = new AsrModel({ ...small, generator: new Generator(1) });
  const decoder = model.transducer?.decoder as NonNullable<typeof model.transducer>["decoder"];
  const ids = zeros([1, 4], { dtype: "int64" }).add(5);
  const padded = decoder.forward(ids);
  const context = ids.clone();
  context.select(1, 0).fill_(-1);
  expect(padded.shape).toEqual([1, 4, 32]);
  expect(padded.slice(1, 0, 3)).toBeAllClose(decoder.forward(context, { padLeft: false }));
});

test("training steps are repeatable from their seeds, differ between seeds, and leave no tensors behind", () => {
  const model = new AsrModel({ ...small, useCtc: true, generator: new Generator(1) });
  model.setBatchCount(100);
  const x = randn([4, 70, 80], { generator: new Generator(2) });
  const step = (seed: number): number => {
    model.train({ random: new Random(seed), generator: new Generator(seed) });
    return scope(() => {
      const loss = model
        .ctcLogProbs(model.forwardEncoder(x, [70, 60, 50, 40]).encoderOut)
        .square()
        .mean();
      loss.backward();
      return loss.item();
    });
  };
  const first = step(1);
  for (let i = 2; i < 8; i++) step(i); // every kept tensor exists afterwards: position tables, whitening flags
  const before = liveTensors();
  expect(step(1)).toBe(first);
  expect(step(99)).not.toBe(first);
  for (let i = 2; i < 8; i++) step(i);
  expect(liveTensors()).toBe(before);
  for (const [name, parameter] of model.namedParameters()) {
    if (/^(decoder|joiner|simple)|layers\.\d+\.bypass_scale$/.test(name)) continue; // not part of this loss, or never used
    expect(parameter.grad?.isfinite().all().item(), name).toBe(1);
  }
});
