/** Every operator of ours with inputs to try: what everyOperator.test.ts goes through. */
import { arange, cat, conv1d, conv2d, Generator, ones, ops, pad, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { plainLattice } from "../../losses/plainLattice.ts";

export type Call = (...inputs: Tensor[]) => Tensor;

export interface Case {
  call: Call;
  /** What it equals: by default itself, composed. */
  plain?: Call;
  /** Shapes of the inputs, "7x3x5 11x5": odd sizes, no multiples of what a vector holds. */
  shapes: string[];
  /** Shapes where some input has no elements. */
  empty: string[];
  /** How far gradients may be off, absolutely: derivatives that are kept in 8 bits. */
  rounding?: number;
  /** The same where the inputs are double. */
  doubleRounding?: number;
  /** Inputs of float and double are all that it takes. */
  wideOnly?: boolean;
  /** Nothing to differentiate. */
  valueOnly?: boolean;
}

/** "7x3x5 scalar": [[7, 3, 5], []]. */
export const parseShapes = (text: string): number[][] => text.split(" ").map((shape) => (shape === "scalar" ? [] : shape.split("x").map(Number)));

const range = [-0.1, 0.1, 0.5, 0.9, 0.04] as const;
const flat = (...parts: readonly Tensor[]): Tensor =>
  cat(
    parts.map((x) => x.flatten()),
    0,
  );
/** (N, T): true from each length on. */
const padded = (lengths: readonly number[], frames: number): Tensor =>
  arange(0, frames)
    .unsqueeze(0)
    .ge(tensor(lengths as number[]).unsqueeze(1));
const lengthsOf = (batch: number, frames: number): number[] => Array.from({ length: batch }, (_, n) => Math.max(1, frames - n));
const symbolsOf = (shape: readonly number[], classes: number): Tensor => {
  const count = shape.reduce((a, b) => a * b, 1);
  return arange(0, count)
    .mul(7)
    .remainder(classes)
    .to({ dtype: "int64" })
    .reshape([...shape]);
};
/** Rows of lm at every frame, `range` of them that rise with the frames, and the log-probabilities of some symbol there and of blank. */
const joined =
  (range: number, blank: number): Call =>
  (am, lm, weight, bias) => {
    const [batch, frames] = am.shape as [number, number];
    const starts = arange(0, frames)
      .floorDivide(5)
      .clampMax(lm.size(1) - range)
      .view([1, -1, 1]); // prettier-ignore
    const ranges = starts.add(arange(0, range)).expand([batch, frames, range]).to({ dtype: "int64" }); // prettier-ignore
    return flat(...ops.joinerLogProbs(am, lm, ranges, weight, bias ?? null, symbolsOf([batch, frames, range], weight.size(0)), blank));
  };
const boundaryOf = (px: Tensor, py: Tensor): number[][] => Array.from({ length: px.size(0) }, (_, n) => [0, 0, Math.max(0, px.size(1) - n), py.size(2)]);
const lattice =
  (modified: boolean): Call =>
  (px, py) =>
    ops.mutualInformation(px, py, tensor(boundaryOf(px, py).flat(), { dtype: "int64" }).reshape([-1, 4]), false, modified)[0];
const plainMutualInformation =
  (modified: boolean): Call =>
  (px, py) =>
    plainLattice(px, py, boundaryOf(px, py), modified);
const elementwise = { shapes: ["5x3x17", "1", "7x33", "2x3x5x9", "211x3x97"], empty: ["0x3", "2x0x5"] };

/** By the operator's name, as it is registered. */
export const cases: Record<string, Case[]> = {
  linear: [
    {
      call: (x, w, b) => ops.linear(x, w, b),
      shapes: ["7x3x5 11x5 11", "1x1 1x1 1", "2x33x17 67x17 67", "19 3x19 3", "127x521 65x521 65"],
      empty: ["0x3x5 11x5 11", "4x0 3x0 3"],
    },
    {
      call: (x, w) => ops.linear(x, w),
      shapes: ["23x9 37x9"],
      empty: ["2x0x9 37x9"],
    },
  ],
  conv2d: [
    {
      call: (x, w, b) => ops.conv2d(x, w, b, [1, 1], [0, 1]),
      shapes: ["2x1x9x7 5x1x3x3 5", "1x3x3x2 5x3x3x3 5"],
      empty: ["0x1x9x7 5x1x3x3 5"],
    },
    {
      call: (x, w) => ops.conv2d(x, w, null, [2, 1], [2, 1]),
      shapes: ["3x5x11x9 7x5x3x2", "2x5x61x41 33x5x3x3"],
      empty: ["0x5x11x9 7x5x3x2"],
    },
  ],
  depthwise_conv1d: [
    {
      call: (x, w, b) => ops.depthwiseConv1d(x, w, b, 3, 1),
      plain: (x, w, b) => conv1d(pad(x, [3, 1]), w, b, 1, 0, 1, x.size(1)),
      shapes: ["2x19x13 19x1x5 19", "1x1x1 1x1x5 1", "3x33x7 33x1x9 33", "2x67x301 67x1x9 67"],
      empty: ["0x5x7 5x1x5 5"],
    },
  ],
  depthwise_conv2d: [
    {
      call: (x, w, b) => ops.depthwiseConv2d(x, w, b, [2, 1]),
      plain: (x, w, b) => conv2d(x, w, b, 1, [2, 1], 1, x.size(1)),
      shapes: ["2x19x7x5 19x1x5x3 19", "1x3x1x1 3x1x3x3 3", "3x35x41x19 35x1x5x3 35"],
      empty: ["0x3x7x5 3x1x5x3 3"],
    },
  ],
  feedforward: [
    {
      call: (x, w, b, v, c) => ops.feedforward(x, w, b, v, c, [], 0),
      shapes: ["7x2x5 13x5 13 3x13 3", "1x1x1 1x1 1 1x1 1", "461x1x3 33x3 33 5x33 5"],
      empty: ["0x2x5 13x5 13 3x13 3", "4x0x5 13x5 13 3x13 3"],
    },
    {
      call: (x, w, b, v, c) => ops.feedforward(x, w, b, v, c, range, 0.3, new Generator(4)), // the same mask both ways
      shapes: ["99x3x4 33x4 33 5x33 5", "157x3x19 67x19 67 19x67 19", "23x3x40 67x40 67 33x67 33"],
      empty: ["0x3x4 33x4 33 5x33 5"],
    },
  ],
  pointwise_feedforward: [
    {
      call: (x, w, b, v, c) => ops.pointwiseFeedforward(x, w, b, v, c, []),
      plain: (x, w, b, v, c) => conv2d(ops.swooshLExact(conv2d(x, w, b)), v, c),
      shapes: ["2x5x9x17 13x5x1x1 13 3x13x1x1 3"],
      empty: ["0x5x9x17 13x5x1x1 13 3x13x1x1 3"],
      doubleRounding: 0.05, // in double it is composed, and the composition keeps the derivative in 8 bits
    },
    {
      call: (x, w, b, v, c) => ops.pointwiseFeedforward(x, w, b, v, c, range),
      plain: (x, w, b, v, c) => conv2d(ops.swooshLExact(ops.balancer(conv2d(x, w, b), ...range, 1)), v, c),
      shapes: ["3x3x19x7 7x3x1x1 7 5x7x1x1 5", "2x5x37x19 33x5x1x1 33 5x33x1x1 5"],
      empty: ["0x3x19x7 7x3x1x1 7 5x7x1x1 5"],
      doubleRounding: 0.05,
    },
  ],
  attention_weights: [
    {
      call: (q, k, p, e) => ops.attentionWeights(q, k, p, e, padded(lengthsOf(q.size(1), q.size(0)), q.size(0)).unsqueeze(1), 3)[0],
      shapes: ["7x2x15 7x2x15 7x2x9 13x9", "1x1x3 1x1x3 1x1x3 1x3", "19x3x9 19x3x9 19x3x3 37x3", "131x2x33 131x2x33 131x2x9 261x9"],
      empty: ["7x0x15 7x0x15 7x0x9 13x9"],
    },
    {
      call: (q, k) =>
        ops.attentionWeights(
          q,
          k,
          null,
          null,
          ones([1, q.size(0), q.size(0)])
            .triu(1)
            .to({ dtype: "bool" }),
          2,
        )[0], // causal
      shapes: ["9x2x6 9x2x6"],
      empty: ["9x0x6 9x0x6"],
    },
    {
      call: (q, k) => flat(...ops.attentionWeights(q, k, null, null, null, 1, 0.5, 0.3)),
      shapes: ["9x2x5 9x2x5"],
      empty: ["9x0x5 9x0x5"],
    },
  ],
  attend: [
    {
      call: (w, v) => ops.attend(w, v),
      shapes: ["6x5x7 7x2x15", "1x1x1 1x1x1", "9x33x17 17x3x21", "6x131x67 67x2x99"],
      empty: ["6x5x7 7x2x0", "6x0x7 7x2x15"],
    },
  ],
  bmm: [
    {
      call: (a, b, c) => ops.bmm(a, b, c),
      shapes: ["6x5x7 6x7x3 6x5x3", "1x1x1 1x1x1 1x1x1", "3x17x33 3x33x19 3x17x19"],
      empty: ["0x5x7 0x7x3 0x5x3", "2x5x0 2x0x3 2x5x3"],
    },
  ],
  glu: [
    { call: (x) => ops.glu(x, null, []), shapes: ["9x2x10", "1x1x2", "5x3x66", "211x3x194"], empty: ["0x2x8", "3x0x8"] },
    { call: (x) => ops.glu(x, padded(lengthsOf(x.size(1), x.size(0)), x.size(0)), range), shapes: ["9x2x10", "17x3x38", "211x3x194"], empty: ["3x0x8"] },
  ],
  gated_conv1d: [
    { call: (x, w, b) => ops.gatedConv1d(x, null, [], w, b), shapes: ["9x2x10 5x1x3 5", "1x1x2 1x1x1 1"], empty: ["0x2x10 5x1x3 5"] },
    {
      call: (x, w) => ops.gatedConv1d(x, padded(lengthsOf(x.size(1), x.size(0)), x.size(0)), range, w),
      shapes: ["17x3x38 19x1x7", "2x3x66 33x1x31", "211x3x194 97x1x15"],
      empty: ["3x0x38 19x1x7"],
    },
  ],
  gated_attend: [
    {
      call: (w, s, values, y) => ops.gatedAttend(w, s, values, y),
      shapes: ["2x7x7 7x2x33 7x2x33 7x2x33", "1x1x1 1x1x1 1x1x1 1x1x1", "3x131x131 131x3x67 131x3x67 131x3x67"],
      empty: ["2x0x0 0x2x5 0x2x5 0x2x5", "0x3x3 3x0x5 3x0x5 3x0x5"],
    },
    {
      call: (w, x) => ops.gatedAttend(w, ...(x.chunk(3, 2) as [Tensor, Tensor, Tensor])), // of one projection
      shapes: ["3x5x5 5x3x27"],
      empty: ["3x5x5 5x3x0"],
    },
  ],
  bypass: [
    {
      call: (a, b, s) => ops.bypass(a, b, s, 4),
      shapes: ["9x3x5 3x3x5 5", "1x1x1 1x1x1 1", "17x2x33 5x2x33 2x33", "211x3x97 53x3x97 97"],
      empty: ["0x2x3 0x2x3 3"],
    },
    {
      call: (a, b, s) => ops.bypass(a, b, s),
      shapes: ["9x3x5 9x3x5 5", "1x1x1 1x1x1 1", "4x3x33 4x3x33 3x33", "211x3x97 211x3x97 97"],
      empty: ["0x2x3 0x2x3 3", "4x0x3 4x0x3 0x3"],
    },
  ],
  residual: [
    {
      call: (x, part) => ops.residual(x, part),
      shapes: ["5x3x7 5x3x7", "1x1x33 1x1x33"],
      empty: ["0x3x7 0x3x7"],
    },
    {
      call: (x, part) => ops.residual(x, part, tensor(Array.from({ length: x.size(1) }, (_, n) => n % 2))),
      shapes: ["5x3x19 5x3x19", "211x3x97 211x3x97"],
      empty: ["5x0x19 5x0x19"],
    },
  ],
  downsample: [
    {
      call: (x, w) => ops.downsample(x, w),
      shapes: ["9x3x5 2", "5x2x17 8", "4x1x1 1", "7x3x33 4", "423x3x97 2"],
      empty: ["7x0x5 2"],
    },
  ],
  whiten: [
    {
      call: (x) => ops.whiten(x, 1, 1, 0.3, zeros([])),
      shapes: ["31x7", "5x7x9", "3x33", "211x3x35"],
      empty: ["0x4"],
    },
    { call: (x) => ops.whiten(x, 3, 1, 0.3, zeros([])), shapes: ["13x2x9"], empty: ["2x0x9"] },
    { call: (x) => ops.whiten(x, 1, 1e6, 0.3, zeros([])), shapes: ["13x9"], empty: ["0x9"] }, // below its limit
  ],
  whitening_metric: [{ call: (x) => ops.whiteningMetric(x, 3), shapes: ["31x9", "5x7x33"], empty: [], valueOnly: true }],
  balancer: [
    { call: (x) => ops.balancer(x, -0.1, 0.1, 0.5, 0.9, 0.04, -1), shapes: ["13x5", "4x7x19", "40x1", "11x33", "1201x33"], empty: ["0x4", "2x0x4"] },
    { call: (x) => ops.balancer(x, -0.1, 0.1, 0.5, 0.9, 0.04, 1), shapes: ["3x5x7x9", "2x19x17", "3x35x41x19"], empty: ["0x4x3"] },
  ],
  bias_norm: [
    {
      call: (x, bias, scale) => ops.biasNorm(x, bias, scale),
      shapes: ["5x3x17 17 scalar", "9x3 3 scalar", "2x193 193 scalar", "211x3x97 97 scalar"],
      empty: ["0x4 4 scalar"],
    },
    { call: (x, bias, scale) => ops.biasNorm(x, bias, scale, 1), shapes: ["5x19x7 19 scalar"], empty: ["0x4x3 4 scalar"] },
  ],
  swoosh_l: [{ call: (x) => ops.swooshL(x, new Generator(3)), ...elementwise, rounding: 0.04 }],
  swoosh_r: [{ call: (x) => ops.swooshR(x, new Generator(3)), ...elementwise, rounding: 0.04 }],
  swoosh_l_exact: [{ call: (x) => ops.swooshLExact(x), ...elementwise }],
  swoosh_r_exact: [{ call: (x) => ops.swooshRExact(x), ...elementwise }],
  activation_dropout_linear: [
    {
      call: (x, w, b) => ops.activationDropoutLinear(x, w, b, "SwooshL", 0, 0, true),
      shapes: ["7x3x5 11x5 11", "1x1 1x1 1", "9x2x33 17x33 17", "211x3x65 33x65 33"],
      empty: ["0x3x5 11x5 11"],
    },
    {
      call: (x, w) => ops.activationDropoutLinear(x, w, null, "SwooshR", 0.5, 0, false),
      shapes: ["7x19 3x19"],
      empty: ["0x19 3x19"],
    },
  ],
  dropout_shared: [
    { call: (x) => ops.dropoutShared(x, 0.25, 1, new Generator(5)), shapes: ["5x3x17", "7x1", "3x9x33", "211x3x97"], empty: ["0x3"] },
    { call: (x) => ops.dropoutShared(x, 0, 0), shapes: ["5x3"], empty: ["0x3"] },
  ],
  softmax: [
    { call: (x) => ops.softmax(x, -1), shapes: ["5x3x17", "1x1", "9x33", "211x3x97"], empty: ["0x3", "2x0x5"] },
    { call: (x) => ops.softmax(x, 0), shapes: ["5x3x17"], empty: ["4x0"] },
  ],
  pick_log_probs: [
    {
      call: (logits) => ops.pickLogProbs(logits.mul(32), symbolsOf(logits.shape.slice(0, -1), logits.size(-1)), logits.size(-1) - 1)[0],
      shapes: ["4x33"],
      empty: ["0x33"],
    },
    {
      call: (logits) => flat(...ops.pickLogProbs(logits, symbolsOf(logits.shape.slice(0, -1), logits.size(-1)), 0)),
      shapes: ["2x3x5", "4x33", "1x1", "3x7x5x19", "5x23x7x101"],
      empty: ["0x3x5", "2x0x5"],
    },
  ],
  joiner_log_probs: [
    { call: joined(3, 1), shapes: ["2x70x19 2x5x19 11x19 11", "1x1x1 1x3x1 2x1 2", "3x41x67 3x9x67 101x67 101"], empty: ["2x0x5 2x3x5 7x5 7", "0x4x5 0x3x5 7x5 7"] },
    { call: joined(1, 0), shapes: ["3x4x6 3x2x6 33x6"], empty: ["0x4x6 0x2x6 33x6"] },
  ],
  mutual_information: [
    {
      call: lattice(false),
      plain: plainMutualInformation(false),
      shapes: ["2x3x6 2x4x5", "1x1x2 1x2x1", "3x5x8 3x6x7"],
      empty: ["0x3x6 0x4x5"],
      wideOnly: true,
    },
    {
      call: lattice(true),
      plain: plainMutualInformation(true),
      shapes: ["2x3x7 2x4x7"],
      empty: ["0x3x7 0x4x7"],
      wideOnly: true,
    },
  ],
  scale_grad: [{ call: (x) => ops.scaleGrad(x, 0.2), plain: (x) => ops.scaleGrad(x, 0.2), ...elementwise }],
  limit_param_value: [{ call: (x) => ops.limitParamValue(x, -0.25, 0.375), ...elementwise }],
  penalize_abs_values_gt: [{ call: (x) => ops.penalizeAbsValuesGt(x, 0.25, 0.125), ...elementwise }],
  with_loss: [
    {
      call: (x, y) => ops.withLoss(x, y),
      shapes: ["5x3 2x3", "7x17 scalar"],
      empty: ["0x3 2x0"],
    },
  ],
};

/** Operators that update in place, without gradients: their tests are elsewhere. */
export const elsewhere: Record<string, string> = {
  scaled_adam_sums: "test/optim/scaledAdam.test.ts",
  scaled_adam_update_: "test/optim/scaledAdam.test.ts",
};
