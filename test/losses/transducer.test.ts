import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  doRnntPruning,
  getRnntPruneRanges,
  prunedTransducerLoss,
  type RnntType,
  rnntLoss,
  rnntLossSmoothed,
  transducerBoundary,
  transducerLattice,
} from "../../src/losses/index.ts";
import { arange, callOperator, fromTypedArray, Generator, grad, randint, randn, type Tensor, tensor } from "../../src/torch/index.ts";
import { golden, wave } from "../golden.ts";
import { plainLattice } from "./plainLattice.ts";

/** The inputs of the values that are printed below: made by the reference in double precision. */
function toy() {
  const f64 = (shape: number[], settings: object) => fromTypedArray(wave(shape, settings), shape).requiresGrad_(true);
  return {
    am: f64([2, 6, 5], { scale: 1.5 }),
    lm: f64([2, 5, 5], { phase: 0.5 }),
    symbols: tensor(
      [
        [1, 3, 2, 4],
        [2, 2, 1, 0],
      ],
      { dtype: "int64" },
    ),
    boundary: transducerBoundary([4, 3], [6, 5]),
    logits: (range: number) => f64([2, 6, range, 5], { scale: 1.2, phase: 1 }),
  };
}
const close = { rtol: 1e-9, atol: 1e-8 };

describe("the smoothed loss", () => {
  const cases: [string, object, number[]][] = [
    ["of encoder and decoder together", {}, [10.236545655, 13.940640949]],
    ["with a share of the decoder", { lmOnlyScale: 0.25 }, [9.615772644, 13.247488742]],
    ["with shares of both", { lmOnlyScale: 0.25, amOnlyScale: 0.1 }, [10.187923021, 13.139690648]],
    ["with a delay penalty", { lmOnlyScale: 0.25, delayPenalty: 0.1 }, [9.311787459, 13.291947827]],
    ["modified", { rnntType: "modified" }, [6.242023524, 7.21570594]],
    ["constrained", { rnntType: "constrained" }, [14.938917384, 15.110324869]],
  ];
  test.each(cases)("%s has the reference's values", (_, settings, expected) => {
    expect(rnntLossSmoothed({ ...toy(), ...settings, reduction: "none" }).loss).toBeAllClose(expected, close);
  });

  test("has the reference's gradients", () => {
    const { am, lm, ...rest } = toy();
    rnntLossSmoothed({ am, lm, ...rest, lmOnlyScale: 0.25 }).loss.backward();
    expect(am.grad?.select(0, 0).select(0, 0)).toBeAllClose([-0.322035991, 0.129103547, 0.36270703, -0.21699133, 0.047216745], close);
    // The third is printed as 0.553695085, by which the row would not sum to 0.
    expect(lm.grad?.select(0, 1).select(0, 2)).toBeAllClose([-0.484444945, -0.577156328, 0.553695185, 0.348178626, 0.159727461], close);
  });

  test.each(["plain", "lm25", "both"])("equals the reference in single precision: %s", (name) => {
    const { tensors: g, metadata } = golden("rnnt");
    const scales = JSON.parse(metadata[`smoothed.${name}`] as string) as { am_only_scale: number; lm_only_scale: number };
    const [am, lm] = [g.am?.requiresGrad_(true), g.lm?.requiresGrad_(true)] as [Tensor, Tensor];
    const options = { am, lm, symbols: g.symbols as Tensor, boundary: g.boundary as Tensor, amOnlyScale: scales.am_only_scale, lmOnlyScale: scales.lm_only_scale };
    const { loss, pxGrad, pyGrad } = rnntLossSmoothed({ ...options, reduction: "none", returnGrad: true });
    expect(loss).toBeAllClose(g[`smoothed.${name}.loss`]);
    expect(pxGrad).toBeAllClose(g[`smoothed.${name}.px_grad`], { rtol: 1e-3, atol: 1e-5 });
    expect(pyGrad).toBeAllClose(g[`smoothed.${name}.py_grad`], { rtol: 1e-3, atol: 1e-5 });
    loss.sum().backward();
    expect(am.grad).toBeAllClose(g[`smoothed.${name}.am_grad`], { rtol: 1e-3, atol: 1e-5 });
    expect(lm.grad).toBeAllClose(g[`smoothed.${name}.lm_grad`], { rtol: 1e-3, atol: 1e-5 });
  });

  test("of an empty transcript is that of its blanks", () => {
    const am = randn([2, 4, 6], { generator: new Generator(1) });
    const lm = randn([2, 1, 6], { generator: new Generator(2) });
    const { loss } = rnntLossSmoothed({ am, lm, symbols: tensor([[], []], { dtype: "int64" }).view([2, 0]), boundary: transducerBoundary([0, 0], [4, 2]), reduction: "none" });
    const blanks = am.add(lm).logSoftmax(2).select(2, 0).neg();
    expect(loss).toBeAllClose([blanks.select(0, 0).sum().item(), blanks.select(0, 1).slice(0, 0, 2).sum().item()]);
  });

  test("does not depend on what padding holds", () => {
    const { am, lm, symbols, boundary } = toy();
    const other = { am: am.detach().clone(), lm: lm.detach().clone() };
    other.am.select(0, 1).select(0, 5).fill_(9);
    other.lm.select(0, 1).select(0, 4).fill_(-7);
    const otherSymbols = symbols.clone();
    otherSymbols.select(0, 1).select(0, 3).fill_(4);
    const loss = rnntLossSmoothed({ am, lm, symbols, boundary, lmOnlyScale: 0.25 }).loss.item();
    expect(rnntLossSmoothed({ ...other, symbols: otherSymbols, boundary, lmOnlyScale: 0.25 }).loss.item()).toBeCloseTo(loss, 12);
  });

  test("names the shapes that do not fit", () => {
    const { am, lm, symbols, boundary } = toy();
    expect(() => rnntLossSmoothed({ am, lm: lm.slice(1, 1), symbols, boundary })).toThrow(/lm must be \(N = 2, S \+ 1 = 5, V = 5\), it is \(2, 4, 5\)/);
    expect(() => rnntLossSmoothed({ am: am.to({ dtype: "float32" }), lm, symbols, boundary })).toThrow(/float32/);
    expect(() => rnntLossSmoothed({ am, lm, symbols, boundary: transducerBoundary([4, 3], [6, 7]) })).toThrow(/outside of/);
  });
});

describe("prune ranges", () => {
  test.each([
    [
      2,
      [
        [0, 1, 1, 2, 3, 3],
        [0, 0, 1, 1, 2, 2],
      ],
    ],
    [
      3,
      [
        [0, 0, 2, 2, 2, 2],
        [0, 0, 1, 1, 1, 1],
      ],
    ],
    [
      5,
      [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
      ],
    ],
    [
      50,
      [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
      ],
    ],
  ])("of %i are the reference's", (sRange, first) => {
    const { boundary, ...rest } = toy();
    const grads = rnntLossSmoothed({ ...rest, boundary, lmOnlyScale: 0.25, returnGrad: true });
    const ranges = getRnntPruneRanges({ ...grads, boundary, sRange });
    expect(ranges.shape).toEqual([2, 6, Math.min(sRange, 5)]);
    expect(ranges.select(2, 0).toArray()).toEqual(first.flat());
    expect(ranges.sub(ranges.slice(2, 0, 1)).toArray()).toEqual(Array.from({ length: 12 }, () => Array.from({ length: ranges.size(2) }, (_, k) => k)).flat());
  });

  test("are raised, with one warning, where symbols outnumber what the frames can hold", () => {
    const grads = { pxGrad: randn([1, 9, 4]), pyGrad: randn([1, 10, 3]) };
    const warnings: string[] = [];
    const ranges = getRnntPruneRanges({ ...grads, boundary: transducerBoundary([9], [3]), sRange: 2, onWarning: (m) => warnings.push(m) });
    expect(warnings).toEqual(["an utterance has so many symbols for its frames that the prune range was raised from 2 to 4"]);
    expect(ranges.shape).toEqual([1, 3, 4]);
  });

  test("of empty transcripts hold the one row there is", () => {
    const ranges = getRnntPruneRanges({ pxGrad: randn([2, 0, 5]), pyGrad: randn([2, 1, 4]), boundary: transducerBoundary([0, 0], [4, 3]) });
    expect(ranges.shape).toEqual([2, 4, 1]);
    expect(ranges.toArray()).toEqual(new Array(8).fill(0));
  });

  test("start at 0, rise by less than the range, and hold the last symbol", () => {
    fc.assert(
      fc.property(batches(), fc.integer({ min: 2, max: 6 }), fc.constantFrom<RnntType>("regular", "modified"), ({ frames, symbols, seed }, sRange, rnntType) => {
        const generator = new Generator(seed);
        const [T, S] = [Math.max(...frames), Math.max(...symbols)];
        const pxGrad = randn([frames.length, S, rnntType === "regular" ? T + 1 : T], { generator });
        const pyGrad = randn([frames.length, S + 1, T], { generator });
        const ranges = getRnntPruneRanges({ pxGrad, pyGrad, boundary: transducerBoundary(symbols, frames), sRange, rnntType });
        const range = ranges.size(2);
        const step = rnntType === "regular" ? range - 1 : 1;
        frames.forEach((count, n) => {
          const starts = ranges.select(0, n).select(1, 0).toArray().slice(0, count);
          expect(starts[0]).toBe(0);
          starts.slice(1).forEach((s, t) => {
            expect(s - (starts[t] as number)).toBeGreaterThanOrEqual(0);
            expect(s - (starts[t] as number)).toBeLessThanOrEqual(step);
          });
          const last = starts[count - 1] as number;
          expect(last + range).toBeLessThanOrEqual(S + 1);
          if (rnntType === "regular" || (symbols[n] as number) <= count) expect(last + range - 1).toBeGreaterThanOrEqual(symbols[n] as number);
        });
      }),
      { numRuns: 50 },
    );
  });
});

describe("the pruned loss", () => {
  const cases: [string, object, Record<number, number[]>][] = [
    ["regular", {}, { 2: [15.898750699, 14.587130765], 3: [15.11872651, 9.55590552], 5: [10.172395462, 11.536718289] }],
    ["with a delay penalty", { delayPenalty: 0.1 }, { 2: [15.79933272, 14.703805497], 3: [14.824302837, 9.416287262], 5: [9.994684553, 11.577567256] }],
    ["HAT", { useHatLoss: true }, { 2: [11.576681507, 9.845743606], 3: [10.518879885, 6.64632218], 5: [7.813201277, 7.783035913] }],
  ];
  test.each(cases)("%s has the reference's values", (_, settings, expected) => {
    const { am, lm, symbols, boundary, logits } = toy();
    const grads = rnntLossSmoothed({ am, lm, symbols, boundary, lmOnlyScale: 0.25, returnGrad: true });
    for (const [range, losses] of Object.entries(expected)) {
      const ranges = getRnntPruneRanges({ ...grads, boundary, sRange: Number(range) });
      expect(prunedTransducerLoss({ logits: logits(Number(range)), symbols, ranges, boundary, ...settings, reduction: "none" })).toBeAllClose(losses, close);
    }
  });

  test.each([3, 5, 10])("equals the reference in single precision, gradients included, at range %i", (sRange) => {
    const { tensors: g } = golden("rnnt");
    const [symbols, boundary] = [g.symbols, g.boundary] as [Tensor, Tensor];
    const ranges = getRnntPruneRanges({ pxGrad: g["smoothed.both.px_grad"] as Tensor, pyGrad: g["smoothed.both.py_grad"] as Tensor, boundary, sRange });
    expect(ranges).toBeAllClose(g[`ranges.${sRange}`], { rtol: 0, atol: 0 });
    const pruned = doRnntPruning(g.am as Tensor, g.lm as Tensor, ranges);
    expect(pruned.am.add(pruned.lm)).toBeAllClose(g[`pruned.${sRange}.logits`]);
    const logits = g[`pruned.${sRange}.logits`]?.requiresGrad_(true) as Tensor;
    const loss = prunedTransducerLoss({ logits, symbols, ranges, boundary, reduction: "none" });
    expect(loss).toBeAllClose(g[`pruned.${sRange}.loss`]);
    loss.sum().backward();
    expect(logits.grad).toBeAllClose(g[`pruned.${sRange}.logits_grad`], { rtol: 1e-3, atol: 1e-5 });
  });

  test("at the full range equals the loss of an adding joiner, gradients included", () => {
    fc.assert(
      fc.property(
        batches(),
        fc.constantFrom<RnntType>("regular", "modified", "constrained"),
        fc.constantFrom(0, 0.05),
        ({ frames, symbols: counts, seed }, rnntType, delayPenalty) => {
          const generator = new Generator(seed);
          const [N, T, S, V] = [frames.length, Math.max(...frames), Math.max(...counts), 7];
          const am = randn([N, T, V], { generator, dtype: "float64", requiresGrad: true });
          const lm = randn([N, S + 1, V], { generator, dtype: "float64", requiresGrad: true });
          const symbols = randint(1, V, [N, S], { generator });
          // Where symbols may not share a frame, there must be enough frames.
          const boundary = transducerBoundary(rnntType === "regular" ? counts : counts.map((c, n) => Math.min(c, frames[n] as number)), frames);
          const shared = { symbols, boundary, rnntType, delayPenalty, reduction: "none" as const };
          const { loss, pxGrad, pyGrad } = rnntLossSmoothed({ am, lm, ...shared, returnGrad: true });
          const ranges = getRnntPruneRanges({ pxGrad, pyGrad, boundary, sRange: Math.max(S + 1, 2), rnntType });
          const pruned = doRnntPruning(am, lm, ranges);
          const logits = pruned.am.add(pruned.lm);
          const prunedLoss = prunedTransducerLoss({ logits, ranges, ...shared });
          expect(prunedLoss).toBeAllClose(loss, close);
          expect(rnntLoss({ logits: am.unsqueeze(2).add(lm.unsqueeze(1)), ...shared })).toBeAllClose(loss, close);
          const [one, two] = [grad([loss.sum()], [am, lm]), grad([prunedLoss.sum()], [am, lm])];
          expect(two[0]).toBeAllClose(one[0], close);
          expect(two[1]).toBeAllClose(one[1], close);
        },
      ),
      { numRuns: 40 },
    );
  });

  test("is finite at every range of at least 2 and never below the full loss", () => {
    fc.assert(
      fc.property(batches(), fc.integer({ min: 2, max: 5 }), ({ frames, symbols: counts, seed }, sRange) => {
        const generator = new Generator(seed);
        const [N, T, S, V] = [frames.length, Math.max(...frames), Math.max(...counts), 6];
        const am = randn([N, T, V], { generator, dtype: "float64" });
        const lm = randn([N, S + 1, V], { generator, dtype: "float64" });
        const symbols = randint(1, V, [N, S], { generator });
        const shared = { symbols, boundary: transducerBoundary(counts, frames), reduction: "none" as const };
        const smoothed = rnntLossSmoothed({ am, lm, ...shared, returnGrad: true });
        const ranges = getRnntPruneRanges({ ...smoothed, boundary: shared.boundary, sRange });
        const pruned = doRnntPruning(am, lm, ranges);
        const losses = prunedTransducerLoss({ logits: pruned.am.add(pruned.lm), ranges, ...shared }).toArray();
        losses.forEach((loss, n) => {
          expect(Number.isFinite(loss)).toBe(true);
          expect(loss).toBeGreaterThanOrEqual((smoothed.loss.toArray()[n] as number) - 1e-9);
        });
      }),
      { numRuns: 40 },
    );
  });

  test("trains a batch that holds an empty transcript, and one that holds nothing else", () => {
    for (const counts of [
      [3, 0],
      [0, 0],
    ]) {
      const S = Math.max(...counts);
      const generator = new Generator(3);
      const am = randn([2, 6, 5], { generator, requiresGrad: true });
      const lm = randn([2, S + 1, 5], { generator, requiresGrad: true });
      const shared = { symbols: randint(1, 5, [2, S], { generator }), boundary: transducerBoundary(counts, [6, 4]) };
      const smoothed = rnntLossSmoothed({ am, lm, ...shared, returnGrad: true });
      const ranges = getRnntPruneRanges({ ...smoothed, boundary: shared.boundary });
      const pruned = doRnntPruning(am, lm, ranges);
      smoothed.loss.add(prunedTransducerLoss({ logits: pruned.am.add(pruned.lm), ranges, ...shared })).backward();
      expect(am.grad?.isfinite().all().item()).toBe(1);
      expect(lm.grad?.isfinite().all().item()).toBe(1);
      expect(am.grad?.abs().sum().item()).toBeGreaterThan(0.1);
    }
  });

  test("needs float logits and, for HAT, blank 0", () => {
    const { symbols, boundary, logits } = toy();
    const ranges = arange(0, 5).expand([2, 6, 5]);
    expect(() => prunedTransducerLoss({ logits: logits(5).to({ dtype: "bfloat16" }), symbols, boundary, ranges })).toThrow(/float32, outside of autocast/);
    expect(() => prunedTransducerLoss({ logits: logits(5), symbols, boundary, ranges, useHatLoss: true, terminationSymbol: 1 })).toThrow(/blank 0/);
    expect(() => prunedTransducerLoss({ logits: logits(5), symbols, boundary, ranges, rnntType: "best" as RnntType })).toThrow(/regular, modified, constrained/);
  });
});

describe("the lattice", () => {
  test("equals the reference's recursion", () => {
    const { tensors: g } = golden("rnnt");
    const boundary = transducerBoundary([4, 4], [6, 6]);
    const [scores, pxGrad, pyGrad] = callOperator("serac::mutual_information", [g["mi.px"] as Tensor, g["mi.py"] as Tensor, boundary, true]) as [Tensor, Tensor, Tensor];
    expect(scores).toBeAllClose(g["mi.score"]);
    expect(pxGrad).toBeAllClose(g["mi.px_grad"], { rtol: 1e-3, atol: 1e-6 });
    expect(pyGrad).toBeAllClose(g["mi.py_grad"], { rtol: 1e-3, atol: 1e-6 });
  });

  test("equals a plain composition, gradients included, in any boundary", () => {
    fc.assert(
      fc.property(batches(), fc.boolean(), ({ frames, symbols, seed }, modified) => {
        const generator = new Generator(seed);
        const [N, T, S] = [frames.length, Math.max(...frames), Math.max(...symbols)];
        const counts = modified ? symbols.map((c, n) => Math.min(c, frames[n] as number)) : symbols;
        const px = randn([N, S, T], { generator, dtype: "float64", requiresGrad: true });
        const py = randn([N, S + 1, T], { generator, dtype: "float64", requiresGrad: true });
        const { scores } = transducerLattice(px, py, { boundary: transducerBoundary(counts, frames), rnntType: modified ? "modified" : "regular" });
        // After the last frame no symbol may come: the plain lattice gets that as a column of -inf.
        const padded = modified ? px : endless(px, frames);
        const plain = plainLattice(
          padded,
          py,
          counts.map((c, n) => [0, 0, c, frames[n] as number]),
          modified,
        );
        expect(scores).toBeAllClose(plain, close);
        const weights = randn([N], { generator, dtype: "float64" });
        const [one, two] = [scores, plain].map((s) => grad([s.mul(weights).sum()], [px, py], { allowUnused: true }));
        [px, py].forEach((input, i) => expect(one?.[i]).toBeAllClose(two?.[i] ?? input.mul(0), close));
      }),
      { numRuns: 15 },
    );
  });
});

function endless(px: Tensor, frames: readonly number[]): Tensor {
  const [N, S, T] = px.shape as [number, number, number];
  const ends = tensor(frames, { dtype: "int64" }).view([N, 1, 1]);
  const padded = px.matmul(
    tensor(
      Array.from({ length: T }, (_, i) => Array.from({ length: T + 1 }, (_, j) => (i === j ? 1 : 0))),
      { dtype: "float64" },
    ),
  );
  return padded.maskedFill(
    arange(0, T + 1)
      .eq(ends)
      .expand([N, S, T + 1]),
    Number.NEGATIVE_INFINITY,
  );
}

/** Batches of one to three utterances, some with more symbols than frames, some with none. */
function batches(): fc.Arbitrary<{ frames: number[]; symbols: number[]; seed: number }> {
  return fc
    .array(fc.record({ frames: fc.integer({ min: 1, max: 7 }), symbols: fc.integer({ min: 0, max: 5 }) }), { minLength: 1, maxLength: 3 })
    .chain((rows) => fc.record({ frames: fc.constant(rows.map((r) => r.frames)), symbols: fc.constant(rows.map((r) => r.symbols)), seed: fc.nat(1000) }));
}
