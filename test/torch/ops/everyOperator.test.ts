/**
 * What holds of every operator of ours: it equals its composition, values and all gradients, whatever the layout of inputs and gradients in memory, in
 * float, in double and under autocast; it takes sizes of 0; it gives the same bits every time; it frees what it takes.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  allocatedBytes,
  autocast,
  cat,
  type DType,
  Generator,
  grad,
  listOperators,
  liveTensors,
  randn,
  scope,
  setThreads,
  stack,
  type Tensor,
  threads,
  zeros,
} from "../../../src/torch/index.ts";
import { type Call, type Case, cases, elsewhere, parseShapes } from "./cases.ts";
import { composed, gradients } from "./helpers.ts";

const before = threads();
beforeAll(() => setThreads(2));
afterAll(() => setThreads(before));

/** The same numbers as `x`, otherwise in memory. */
const layouts: Record<string, (x: Tensor) => Tensor> = {
  "in order": (x) => x.contiguous(),
  "dimensions reversed": (x) => {
    const order = x.shape.map((_, i) => x.dim - 1 - i);
    return x.permute(order).contiguous().permute(order);
  },
  "the first dimension last": (x) => (x.dim < 2 ? x : x.movedim(0, -1).contiguous().movedim(-1, 0)),
  "every second": (x) => stack([x, x.mul(0).add(9)], -1).select(-1, 0),
  "not aligned": (x) =>
    cat([zeros([1], { dtype: x.dtype }), x.flatten()], 0)
      .narrow(0, 1, x.numel)
      .view(x.shape),
};

/** Double is left to libtorch by most operators: two layouts tell whether it gets there. */
const inDouble = new Set(["in order", "every second"]);

const inputsOf = (shapes: string, seed: number): Tensor[] => {
  const generator = new Generator(seed);
  return parseShapes(shapes).map((shape) => randn(shape, { generator, dtype: "float64" }));
};
const as = (xs: readonly Tensor[], dtype: DType): Tensor[] => xs.map((x) => x.to({ dtype }));
/** The relative distance; numbers that are 0 but for rounding are measured against 1. */
const distance = (a: Tensor, b: Tensor): number => a.to({ dtype: "float64" }).sub(b).norm().item() / (b.norm().item() + 0.1 * Math.sqrt(b.numel));

/** Values and gradients in double, of the composition. */
function expected({ call, plain = call }: Case, inputs: readonly Tensor[], upstream?: Tensor): { y: Tensor; grads: Tensor[] } {
  return composed(() => gradients(plain, inputs, upstream));
}
const upstreamOf = (y: Tensor): Tensor => randn(y.shape, { generator: new Generator(99), dtype: "float64" });

test("every operator is here, or named with its test", () => {
  const registered = listOperators()
    .filter((name) => name.startsWith("serac::"))
    .map((name) => name.slice("serac::".length).split(".")[0]);
  expect([...new Set(registered)].sort()).toEqual([...Object.keys(cases), ...Object.keys(elsewhere)].sort());
});

const differentiable = Object.entries(cases).map(([name, list]): [string, Case[]] => [name, list.filter(({ valueOnly }) => !valueOnly)]);

describe.each(Object.entries(cases))("%s", (_, list) => {
  test("has the composition's values in every layout, in float and in double", () => {
    for (const one of list)
      for (const shapes of one.shapes)
        scope(() => {
          const wide = inputsOf(shapes, 1);
          const y = composed(() => (one.plain ?? one.call)(...wide));
          for (const [layout, lay] of Object.entries(layouts)) {
            if (inDouble.has(layout)) expect(distance(one.call(...wide.map(lay)), y), `${shapes} in double, ${layout}`).toBeLessThan(1e-9);
            expect(distance(one.call(...as(wide, "float32").map(lay)), y), `${shapes}, ${layout}`).toBeLessThan(1e-5);
          }
        });
  });
});

describe.each(differentiable.filter(([, list]) => list.length > 0))("%s, gradients", (_, list) => {
  test("are the composition's in every layout of inputs and gradient, in float and in double", () => {
    for (const one of list)
      for (const shapes of one.shapes)
        scope(() => {
          const wide = inputsOf(shapes, 1);
          const upstream = upstreamOf(expected(one, wide).y);
          const { y, grads } = expected(one, wide, upstream);
          for (const [layout, lay] of Object.entries(layouts)) {
            for (const dtype of inDouble.has(layout) ? (["float64", "float32"] as const) : (["float32"] as const)) {
              const own = gradients(one.call, as(wide, dtype).map(lay), lay(upstream.to({ dtype })));
              expect(distance(own.y, y), `${shapes} in ${dtype}, ${layout}`).toBeLessThan(dtype === "float64" ? 1e-9 : 1e-5);
              own.grads.forEach((g, i) => {
                const what = `gradient ${i} of ${shapes} in ${dtype}, ${layout}`;
                expect(g.dtype, what).toBe(dtype);
                expect(g.shape, what).toEqual(wide[i]?.shape);
                expect(distance(g, grads[i] as Tensor), what).toBeLessThan(one.rounding ?? (dtype === "float64" ? (one.doubleRounding ?? 1e-9) : 2e-5));
              });
            }
          }
          // the gradient of a sum is one number seen everywhere
          const leaves = as(wide, "float32").map((x) => x.requiresGrad_(true));
          const summed = grad([one.call(...leaves).sum()], leaves) as Tensor[];
          const ones = expected(one, wide).grads;
          summed.forEach((g, i) => expect(distance(g, ones[i] as Tensor), `gradient ${i} of the sum`).toBeLessThan(one.rounding ?? 1e-4));
        });
  });

  test("under autocast are those in double but for rounding, and types are the composition's", () => {
    for (const one of list)
      for (const shapes of one.shapes)
        scope(() => {
          const wide = inputsOf(shapes, 2);
          const upstream = upstreamOf(expected(one, wide).y);
          const { y, grads } = expected(one, wide, upstream);
          const inputs = as(wide, "float32");
          const plain = composed(() => autocast({}, () => (one.plain ?? one.call)(...inputs)));
          for (const [layout, lay] of Object.entries(layouts)) {
            const narrow: Call = (...x) => autocast({}, () => one.call(...x));
            const own = gradients(narrow, inputs.map(lay), lay(upstream.to({ dtype: plain.dtype })));
            expect(own.y.dtype).toBe(plain.dtype);
            expect(distance(own.y, y), `${shapes}, ${layout}`).toBeLessThan(0.02);
            own.grads.forEach((g, i) => {
              expect(g.dtype).toBe("float32");
              expect(distance(g, grads[i] as Tensor), `gradient ${i} of ${shapes}, ${layout}`).toBeLessThan((one.rounding ?? 0) + 0.05);
            });
          }
        });
  });

  test("of inputs in bfloat16 keep their type", () => {
    for (const one of list.filter(({ wideOnly }) => !wideOnly))
      for (const shapes of one.shapes)
        scope(() => {
          const narrow = as(inputsOf(shapes, 3), "bfloat16");
          const wide = as(narrow, "float64");
          const upstream = upstreamOf(expected(one, wide).y);
          const plain = composed(() => gradients(one.plain ?? one.call, narrow));
          const { y, grads } = expected(one, wide, upstream);
          const own = gradients(one.call, narrow, upstream.to({ dtype: plain.y.dtype }));
          expect([own.y.dtype, ...own.grads.map((g) => g.dtype)]).toEqual([plain.y.dtype, ...plain.grads.map((g) => g.dtype)]);
          expect(distance(own.y, y)).toBeLessThan(0.02);
          own.grads.forEach((g, i) => expect(distance(g, grads[i] as Tensor), `gradient ${i} of ${shapes}`).toBeLessThan((one.rounding ?? 0) + 0.05));
        });
  });

  test("of nothing are nothing, and 0 for what was not used", () => {
    for (const one of list)
      for (const shapes of one.empty)
        scope(() => {
          const inputs = as(inputsOf(shapes, 4), "float32");
          const plain = composed(() => gradients(one.call, inputs));
          const own = gradients(one.call, inputs);
          expect(own.y.shape).toEqual(plain.y.shape);
          expect(own.y).toBeAllClose(plain.y);
          own.grads.forEach((g, i) => {
            expect(g.shape).toEqual(inputs[i]?.shape);
            expect(g, `gradient ${i} of ${shapes}`).toBeAllClose(plain.grads[i] as Tensor);
          });
          const narrow = autocast({}, () => gradients(one.call, inputs));
          expect(narrow.y.shape).toEqual(plain.y.shape);
        });
  });

  test("have the same bits every time, and nothing stays", () => {
    for (const one of list)
      for (const shapes of one.shapes)
        scope(() => {
          const inputs = as(inputsOf(shapes, 5), "float32");
          const run = (narrow: boolean): Tensor[] => {
            const call: Call = narrow ? (...x) => autocast({}, () => one.call(...x)) : one.call;
            const { y, grads } = gradients(call, inputs);
            return [y, ...grads];
          };
          for (const narrow of [false, true]) {
            const first = run(narrow);
            const held = [liveTensors(), allocatedBytes()];
            for (let i = 0; i < 3; i++)
              scope(() =>
                run(narrow).forEach((t, k) =>
                  expect(
                    t
                      .ne(first[k] as Tensor)
                      .any()
                      .item(),
                    `${k} of ${shapes}`,
                  ).toBe(0),
                ),
              );
            expect([liveTensors(), allocatedBytes()]).toEqual(held);
          }
        });
  });
});
