/** Products of float matrices, whatever they are made of: of pieces in bfloat16 where the CPU has AMX. They are seen through the operator that is nothing else. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { cat, describeLibtorch, full, Generator, isas, ops, randn, setThreads, type Tensor, threads, zeros } from "../../../src/torch/index.ts";
import { torchAddon } from "../../../src/torch/native.ts";
import { gradients } from "./helpers.ts";

/** The largest errors of a b^T and of its gradients for a (m, k), b (n, k), in parts of the sums of absolute values. */
function errors(a: Tensor, b: Tensor, up: Tensor): number[] {
  const double = (x: Tensor): Tensor => x.to({ dtype: "float64" });
  const own = gradients((x, w) => ops.linear(x, w), [a, b], up);
  const [da, db] = own.grads as [Tensor, Tensor];
  const against = (got: Tensor, x: Tensor, y: Tensor): number =>
    double(got)
      .sub(double(x).matmul(double(y)))
      .abs()
      .div(double(x).abs().matmul(double(y).abs()).add(1e-30))
      .max()
      .item();
  return [against(own.y, a, b.t()), against(da, up, b), against(db, up.t(), a)];
}

const size = fc.integer({ min: 1, max: 300 });

test("are as exact as float allows, for matrices of every size and for what lies between", () => {
  fc.assert(
    fc.property(size, size, size, fc.boolean(), fc.integer({ min: 0, max: 1000 }), (m, n, k, holes, seed) => {
      const generator = new Generator(seed);
      const random = (rows: number, columns: number): Tensor =>
        holes
          ? randn([columns, rows + 3], { generator })
              .t()
              .slice(0, 1, rows + 1)
          : randn([rows, columns], { generator });
      for (const error of errors(random(m, k), random(n, k), random(m, n))) expect(error).toBeLessThan(5e-7);
    }),
    { numRuns: 40 },
  );
});

test.runIf(describeLibtorch().isa === "amx")("of pieces in bfloat16 have the same bits whatever the number of threads", () => {
  const generator = new Generator(1);
  const [a, b, up] = [randn([1000, 150], { generator }), randn([333, 150], { generator }), randn([1000, 333], { generator })];
  const before = threads();
  try {
    const [one, ...others] = [1, 2, 3, 5].map((count) => {
      setThreads(count);
      const { y, grads } = gradients((x, w) => ops.linear(x, w), [a, b], up);
      return [y, ...grads].map((x) => x.toArray());
    });
    for (const other of others) expect(other).toEqual(one);
  } finally {
    setThreads(before);
  }
});

test.runIf(isas().includes("amx"))("of pieces in bfloat16 are no less exact than those in float", () => {
  const before = describeLibtorch().isa;
  const generator = new Generator(2);
  // Numbers of very different sizes, as gradients are.
  const spread = (rows: number, columns: number): Tensor => randn([rows, columns], { generator }).mul(randn([rows, columns], { generator }).mul(4).exp());
  const mean = (isa: string, matrices: [Tensor, Tensor, Tensor]): number => {
    torchAddon().setIsa(isa);
    return errors(...matrices).reduce((sum, error) => sum + error, 0) / 3;
  };
  try {
    for (const [m, n, k] of [
      [448, 384, 128],
      [256, 96, 1024],
      [70, 500, 33],
      [96, 96, 5000],
    ] as const) {
      const matrices: [Tensor, Tensor, Tensor] = [spread(m, k), spread(n, k), spread(m, n)];
      expect(mean("amx", matrices)).toBeLessThan(1.05 * mean("avx512bf16", matrices));
    }
  } finally {
    torchAddon().setIsa(before);
  }
});

test("a NaN stays one, an infinite number never becomes finite, and large and small numbers keep their size", () => {
  const weight = full([72, 64], 0.5);
  const at = (value: number): Tensor => ops.linear(cat([zeros([80, 63]), full([80, 1], value)], 1), weight);
  expect(at(Number.NaN).isnan().all().item()).toBe(1);
  expect(at(Number.POSITIVE_INFINITY).isfinite().any().item()).toBe(0);
  for (const value of [3e38, -1e30, 1.2345678, 1e-20, -1e-29]) expect(at(value)).toBeAllClose(at(1).mul(value), { rtol: 3e-7, atol: 0 });
  for (const value of [1e-33, -1e-36]) expect(at(value)).toBeAllClose(at(1).mul(value), { rtol: 0.01, atol: 0 }); // sums of pieces have no numbers below the normal range
});

test("sums of 20,000 terms of one sign are off by less than 3e-7 on average, not by what a single chain of sums loses", () => {
  const positive = randn([192, 20000], { generator: new Generator(3) }).abs();
  const [a, b] = [positive.slice(0, 0, 96), positive.slice(0, 96)];
  const exact = a.to({ dtype: "float64" }).matmul(b.to({ dtype: "float64" }).t());
  expect(ops.linear(a, b).to({ dtype: "float64" }).sub(exact).div(exact).square().mean().sqrt().item()).toBeLessThan(3e-7);
});

test("a key that is not a number makes every weight of its utterance one that is not", () => {
  for (const frames of [7, 70]) {
    const keys = cat([zeros([frames - 1, 2, 48]), cat([full([1, 1, 48], Number.NaN), zeros([1, 1, 48])], 1)], 0);
    const [weights] = ops.attentionWeights(zeros([frames, 2, 48]), keys, null, null, null, 1);
    expect(weights.isnan().sum().item()).toBe(frames * frames);
    expect(weights.select(0, 0).isnan().all().item()).toBe(1);
  }
});
