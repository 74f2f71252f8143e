import { PerformanceObserver } from "node:perf_hooks";
import { describe, expect, expectTypeOf, test } from "vitest";
import { allocatedBytes, keep, liveTensors, ones, peakBytes, scope, type Tensor, tensor, zeros } from "../../src/torch/index.ts";
import { collectUntil } from "./collect.ts";

/** Runs something and says what of it stayed. */
function left(body: () => void): { tensors: number; bytes: number } {
  const [tensors, bytes] = [liveTensors(), allocatedBytes()];
  body();
  return { tensors: liveTensors() - tensors, bytes: allocatedBytes() - bytes };
}
const nothing = { tensors: 0, bytes: 0 };

describe("scope", () => {
  test("frees what was made inside, views and all", () => {
    expect(left(() => scope(() => void ones([100, 100]).t().add(1).sum()))).toEqual(nothing);
  });

  test("passes on what it returns: alone, in arrays, objects, maps and sets", () => {
    expect(
      left(() => {
        const out = scope(() => ({ one: zeros([2]), list: [zeros([3]), [zeros([4])]], map: new Map([["a", zeros([5])]]), set: new Set([zeros([6])]), lost: zeros([7]).numel }));
        const all = [out.one, out.list[0] as Tensor, (out.list[1] as Tensor[])[0] as Tensor, out.map.get("a") as Tensor, ...out.set];
        expect(all.map((t) => t.numel)).toEqual([2, 3, 4, 5, 6]);
        for (const t of all) t.dispose();
      }),
    ).toEqual(nothing);
  });

  test("nests: what an inner one returns belongs to the outer", () => {
    expect(
      left(() =>
        scope(() => {
          const inner = scope(() => ones([3]).mul(2));
          const outer = scope(() => [inner, inner.add(1)] as const);
          expect(outer[0]).toBe(inner);
          expect(outer[1].toArray()).toEqual([3, 3, 3]);
        }),
      ),
    ).toEqual(nothing);
  });

  test("frees when its body throws, and the error passes through", () => {
    const error = new Error("mine");
    expect(
      left(() => {
        expect(() =>
          scope(() => {
            zeros([1000]);
            scope(() => {
              zeros([1000]);
              throw error;
            });
          }),
        ).toThrow(error);
      }),
    ).toEqual(nothing);
    expect(left(() => scope(() => void zeros([2])))).toEqual(nothing);
  });

  test("refuses async bodies, in the types and when run", () => {
    expect(
      left(() => {
        // @ts-expect-error an async body is a type error
        expect(() => scope(async () => zeros([2]))).toThrow("async");
      }),
    ).toEqual(nothing);
    expectTypeOf(scope(() => 3)).toEqualTypeOf<number>();
  });

  test("circular results and tensors that were freed inside do no harm", () => {
    expect(
      left(() =>
        scope(() => {
          const ring: { self?: unknown; t: Tensor } = { t: zeros([2]) };
          ring.self = ring;
          const out = scope(() => {
            zeros([1]).dispose();
            return ring;
          });
          expect(out.t.numel).toBe(2);
        }),
      ),
    ).toEqual(nothing);
  });

  test("keep takes a tensor out, also when the scope throws", () => {
    expect(
      left(() => {
        const kept: Tensor[] = [];
        scope(() => void kept.push(keep(ones([2]))));
        expect(() =>
          scope(() => {
            kept.push(keep(ones([2])));
            throw new Error("x");
          }),
        ).toThrow("x");
        for (const t of kept) {
          expect(t.sum().item()).toBe(2);
          t.dispose();
        }
      }).bytes,
    ).toBeLessThan(1024);
  });
});

describe("freed tensors", () => {
  test("are an error wherever they are used, never a crash", () => {
    const t = zeros([2]);
    t.dispose();
    t.dispose();
    expect(t.isFreed).toBe(true);
    expect(String(t)).toBe("Tensor(freed)");
    scope(() => {
      const other = zeros([2], { requiresGrad: true });
      const uses: (() => unknown)[] = [
        () => t.add(1),
        () => other.add(t),
        () => t.add_(1),
        () => t.shape,
        () => t.toArray(),
        () => t.item(),
        () => t.viewTypedArray(),
        () => t.grad,
        () => t.backward(),
        () => other.sum().backward({ gradient: t }),
        () => {
          other.grad = t;
        },
        () => t.to({ dtype: "float64" }),
      ];
      for (const use of uses) expect(use).toThrow("TENSOR_FREED");
    });
  });

  test("using frees at the end of its block", () => {
    let outside: Tensor;
    expect(
      left(() => {
        using t = zeros([2]);
        outside = t;
      }),
    ).toEqual(nothing);
    // @ts-expect-error assigned above
    expect(outside.isFreed).toBe(true);
  });
});

test("the collector frees what nobody disposed of", async () => {
  const before = liveTensors();
  const bytes = allocatedBytes();
  (() => {
    for (let i = 0; i < 200; i++) zeros([1000]);
  })();
  expect(liveTensors()).toBeGreaterThan(before);
  expect(await collectUntil(() => liveTensors() <= before && allocatedBytes() <= bytes)).toBe(true);
});

test("memory is reported once a scope, so that large tensors do not make V8 collect at every call", async () => {
  let collections = 0;
  const observer = new PerformanceObserver((list) => (collections += list.getEntries().length));
  observer.observe({ entryTypes: ["gc"] });
  const x = keep(zeros([10 << 20])); // 40 MiB
  const start = allocatedBytes();
  peakBytes({ reset: true });
  for (let i = 0; i < 8; i++)
    scope(() => {
      for (let j = 0; j < 8; j++) x.add(1);
    });
  expect(peakBytes() - start).toBeLessThanOrEqual(8 * 4 * x.numel + (1 << 20));
  await new Promise((resolve) => setTimeout(resolve)); // entries are delivered in a turn of their own
  observer.disconnect();
  x.dispose();
  expect(collections).toBeLessThan(16); // of 64 calls; reported at each, V8 collects at 40
});

test("allocated bytes are those of storages: a view costs none", () => {
  scope(() => {
    const before = allocatedBytes();
    const t = zeros([1024]);
    expect(allocatedBytes() - before).toBeGreaterThanOrEqual(4096);
    const with1 = allocatedBytes();
    t.view([32, 32]).t();
    expect(allocatedBytes()).toBe(with1);
  });
});

test("a training step through serac's operators leaves no bytes behind", async () => {
  const { ops } = await import("../../src/torch/index.ts");
  const step = () =>
    scope(() => {
      const x = tensor(
        [
          [0.5, -1],
          [2, 3],
        ],
        { requiresGrad: true },
      );
      const bias = zeros([2], { requiresGrad: true });
      const logScale = tensor(1, { requiresGrad: true });
      const y = ops.scaleGrad(ops.biasNorm(ops.swooshR(x), bias, logScale), 0.5);
      ops.softmax(y, -1).pow(2).sum().backward();
      expect(x.grad?.shape).toEqual([2, 2]);
    });
  step();
  const [tensors, bytes] = [liveTensors(), allocatedBytes()];
  for (let i = 0; i < 20; i++) step();
  expect([liveTensors(), allocatedBytes()]).toEqual([tensors, bytes]);
});
