import { describe, expect, test } from "vitest";
import { crCtcLoss, ctcLoss, labelSmoothingLoss } from "../../src/losses/index.ts";
import { fromTypedArray, randn, type Tensor, tensor } from "../../src/torch/index.ts";
import { golden, wave } from "../golden.ts";

const logits = () =>
  fromTypedArray(wave([4, 8, 6], { scale: 2 }), [4, 8, 6])
    .to({ dtype: "float32" })
    .requiresGrad_(true);
const lengths = [8, 6, 8, 6];
const targets = [
  [1, 2, 2],
  [3, 4],
  [1, 2, 2],
  [3, 4],
];

/** The lists that a concatenated tensor holds. */
function lists(all: Tensor, sizes: Tensor): number[][] {
  const [ids, counts] = [all.toArray(), sizes.toArray()];
  return counts.map((n) => ids.splice(0, n));
}

describe("CTC", () => {
  test("has the reference's values", () => {
    const logProbs = logits().logSoftmax(2).transpose(0, 1);
    expect(ctcLoss({ logProbs, lengths, targets }).item()).toBeCloseTo(37.8097, 4);
    expect(ctcLoss({ logProbs, lengths, targets, reduction: "none" })).toBeAllClose([11.654473, 6.224118, 14.019093, 5.912015]);
    expect(ctcLoss({ logProbs, lengths, targets, reduction: "mean" }).item()).toBeCloseTo(37.8097 / 4, 4);
  });

  test("of an empty transcript is that of its blanks", () => {
    const logProbs = randn([5, 2, 4]).logSoftmax(2);
    const blanks = logProbs.select(2, 0).neg();
    const expected = [blanks.select(1, 0).sum().item(), blanks.select(1, 1).slice(0, 0, 3).sum().item()];
    expect(ctcLoss({ logProbs, lengths: [5, 3], targets: [[], []], reduction: "none" })).toBeAllClose(expected);
  });

  test("is infinite for more symbols than frames, or 0 where asked", () => {
    const logProbs = randn([3, 1, 4]).logSoftmax(2);
    expect(ctcLoss({ logProbs, lengths: [3], targets: [[1, 1, 2]] }).item()).toBe(Number.POSITIVE_INFINITY);
    expect(ctcLoss({ logProbs, lengths: [3], targets: [[1, 1, 2]], zeroInfinity: true }).item()).toBe(0);
  });

  test("refuses symbols and lengths that libtorch would follow out of bounds", () => {
    const logProbs = randn([3, 1, 4]).logSoftmax(2);
    for (const id of [4, -1, 0, 1.5]) expect(() => ctcLoss({ logProbs, lengths: [3], targets: [[1, id]] })).toThrow(`utterance 0 has the symbol ${id}`);
    for (const length of [0, 4, 2.5]) expect(() => ctcLoss({ logProbs, lengths: [length], targets: [[1]] })).toThrow(`utterance 0 has ${length} frames`);
    expect(() => ctcLoss({ logProbs, lengths: [3], targets: [] })).toThrow(/1 utterances but 0 lists/);
  });
});

describe("CR-CTC", () => {
  test("has the reference's values and gradients", () => {
    const x = logits();
    const logProbs = x.logSoftmax(2);
    const cr = crCtcLoss({ logProbs, lengths });
    expect(cr.item()).toBeCloseTo(41.395699, 4);
    ctcLoss({ logProbs: logProbs.transpose(0, 1), lengths, targets })
      .mul(0.5)
      .add(cr.mul(0.1))
      .backward();
    expect(x.grad?.select(0, 0).select(0, 0)).toBeAllClose([-0.0240581, -0.13763022, 0.17057748, 0.04222415, -0.0438065, -0.00730681]);
  });

  test("equals the reference over a doubled batch", () => {
    const { tensors: g } = golden("extras");
    const x = (g["cr_ctc.logits"] as Tensor).requiresGrad_(true);
    const logProbs = x.logSoftmax(2);
    const frames = (g["cr_ctc.lens"] as Tensor).toArray();
    const ctc = ctcLoss({ logProbs: logProbs.transpose(0, 1), lengths: frames, targets: lists(g["cr_ctc.targets"] as Tensor, g["cr_ctc.target_lens"] as Tensor) });
    const cr = crCtcLoss({ logProbs, lengths: frames });
    expect(ctc).toBeAllClose(g["cr_ctc.ctc"]);
    expect(cr).toBeAllClose(g["cr_ctc.cr"]);
    ctc
      .mul(0.5)
      .add(cr.mul(0.5 * 0.2))
      .backward();
    expect(x.grad).toBeAllClose(g["cr_ctc.logits_grad"], { rtol: 1e-3, atol: 1e-5 });
  });

  test("is 0 between equal copies and needs an even number of rows", () => {
    const logProbs = randn([1, 4, 5]).logSoftmax(2);
    expect(crCtcLoss({ logProbs: logProbs.repeat([2, 1, 1]), lengths: [4, 4] }).item()).toBe(0);
    expect(() => crCtcLoss({ logProbs, lengths: [4] })).toThrow(/even number/);
  });
});

describe("label smoothing", () => {
  const x = () => fromTypedArray(wave([2, 3, 6]), [2, 3, 6]);
  const next = tensor(
    [
      [1, 2, 5],
      [3, 5, -1],
    ],
    { dtype: "int64" },
  );

  test("has the reference's value", () => {
    expect(labelSmoothingLoss({ logits: x(), targets: next }).item()).toBeCloseTo(7.876584, 5);
  });

  test("equals its definition, gradients included", () => {
    const logits = x().requiresGrad_(true);
    const other = x().requiresGrad_(true);
    const onehot = next.clampMin(0).oneHot(6).to({ dtype: "float64" });
    const kept = next.ne(-1).unsqueeze(2).to({ dtype: "float64" });
    const expected = onehot
      .mul(0.7)
      .add(0.3 / 6)
      .mul(kept)
      .mul(other.logSoftmax(2))
      .sum([1, 2])
      .neg();
    const losses = labelSmoothingLoss({ logits, targets: next, labelSmoothing: 0.3, reduction: "none" });
    expect(losses).toBeAllClose(expected, { rtol: 1e-12 });
    losses.sum().backward();
    expected.sum().backward();
    expect(logits.grad).toBeAllClose(other.grad, { rtol: 1e-12, atol: 1e-14 });
  });

  test("refuses a share outside of [0, 1)", () => {
    expect(() => labelSmoothingLoss({ logits: x(), targets: next, labelSmoothing: 1 })).toThrow(/CONFIG_BAD_VALUE/);
  });
});
