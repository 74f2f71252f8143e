import { expect, test } from "vitest";
import { AsrModel, type AsrModelOptions, initializeModel, tokenRowsOf } from "../../src/models/index.ts";
import { Generator, liveTensors, scope, type Tensor } from "../../src/torch/index.ts";

const shape: AsrModelOptions = {
  vocabSize: 6,
  numEncoderLayers: [1],
  downsamplingFactor: [1],
  encoderDim: 16,
  encoderUnmaskedDim: 16,
  feedforwardDim: 24,
  numHeads: 2,
  cnnModuleKernel: 7,
  decoderDim: 8,
  joinerDim: 8,
  frontEndChannels: [2, 4, 4],
  useCtc: true,
  useAttentionDecoder: true,
  attentionDecoderDim: 8,
  attentionDecoderNumLayers: 1,
  attentionDecoderAttentionDim: 8,
  attentionDecoderNumHeads: 2,
  attentionDecoderFeedforwardDim: 8,
};
const make = (seed: number, more: Partial<AsrModelOptions> = {}): AsrModel => scope(() => new AsrModel({ ...shape, ...more, generator: new Generator(seed) }));
const rows = (tensor: Tensor | undefined): number[][] => {
  const t = tensor as Tensor;
  const size = t.numel / (t.shape[0] as number);
  const values = t.toArray();
  return Array.from({ length: t.shape[0] as number }, (_, i) => values.slice(i * size, (i + 1) * size));
};

test("all parameters of the other model, or those of named modules", () => {
  const before = liveTensors();
  scope(() => {
    const [other, whole, part] = [make(1), make(2), make(2)];
    const drawn = make(2);
    const report = initializeModel(whole, { from: other.stateDict(), at: "other.pt" });
    expect([report.taken.length, report.remade, report.drawn]).toEqual([other.stateDict().size, [], []]);
    for (const [key, value] of whole.stateDict()) expect(value.equal(other.stateDict().get(key) as Tensor), key).toBe(true);
    const { drawn: left } = initializeModel(part, { from: other.stateDict(), initModules: ["encoder", "joiner"], at: "other.pt" });
    for (const [key, value] of part.stateDict()) {
      const taken = key.startsWith("encoder.") || key.startsWith("joiner.");
      expect(left.includes(key), key).toBe(!taken);
      expect(value.equal((taken ? other : drawn).stateDict().get(key) as Tensor), key).toBe(true);
    }
    for (const model of [other, whole, part, drawn]) model.dispose();
  });
  expect(liveTensors()).toBe(before);
});

test("another vocabulary: tokens that both have keep their rows, new ones are drawn; every layer with a row a token is among them", () => {
  scope(() => {
    const pieces = ["<blk>", "<sos/eos>", "<unk>", "a", "b", "c"];
    const larger = ["<blk>", "<sos/eos>", "<unk>", "c", "x", "a", "y", "z"];
    const [other, model, drawn] = [make(1), make(2, { vocabSize: larger.length }), make(2, { vocabSize: larger.length })];
    const tokenRows = tokenRowsOf(larger, pieces);
    expect(tokenRows).toEqual([0, 1, 2, 5, -1, 3, -1, -1]);
    const report = initializeModel(model, { from: other.stateDict(), tokenRows, at: "other.pt" });
    expect(report.sharedTokens).toBe(5);
    const withRows = [...model.stateDict()].filter(([key, { shape }]) => shape[0] !== other.stateDict().get(key)?.shape[0]).map(([key]) => key);
    expect(report.remade).toEqual(withRows);
    expect(withRows.length).toBe(12);
    for (const key of withRows) {
      const [now, from, fresh] = [model, other, drawn].map((one) => rows(one.stateDict().get(key))) as [number[][], number[][], number[][]];
      tokenRows.forEach((row, token) => expect(now[token], `${key} ${larger[token]}`).toEqual(row >= 0 ? from[row] : fresh[token]));
    }
    expect(report.taken).not.toContain("decoder.embedding.weight");
    for (const one of [other, model, drawn]) one.dispose();
  });
});

test("a vocabulary of the same size in another order is another vocabulary", () => {
  scope(() => {
    const [other, model] = [make(1), make(2)];
    const { remade } = initializeModel(model, { from: other.stateDict(), tokenRows: [0, 1, 2, 4, 3, 5], at: "other.pt" });
    expect(remade.length).toBe(12);
    expect(rows(model.stateDict().get("ctc_output.1.weight"))[3]).toEqual(rows(other.stateDict().get("ctc_output.1.weight"))[4]);
    for (const one of [other, model]) one.dispose();
  });
});

test("what does not fit is listed, and nothing is changed", () => {
  scope(() => {
    const [other, model, drawn] = [make(1, { encoderDim: 24, encoderUnmaskedDim: 24, useCtc: false }), make(2), make(2)];
    expect(() => initializeModel(model, { from: other.stateDict(), at: "other.pt" })).toThrow(/other\.pt: .*encoder_embed\.out\.weight is .*and \d+ more.*--init-modules/);
    expect(() => initializeModel(model, { from: other.stateDict(), initModules: ["encodr"], at: "other.pt" })).toThrow(/the model has no module encodr/);
    const small = make(3, { vocabSize: 5 });
    expect(() => initializeModel(model, { from: small.stateDict(), at: "small.pt" })).toThrow(/decoder\.embedding\.weight is of 5 tokens, the model's of 6/);
    for (const [key, value] of model.stateDict()) expect(value.equal(drawn.stateDict().get(key) as Tensor), key).toBe(true);
    for (const one of [other, model, drawn, small]) one.dispose();
  });
});
