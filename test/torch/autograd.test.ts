import { afterEach, describe, expect, test } from "vitest";
import { autocast, describeLibtorch, enableGrad, grad, noGrad, ones, ops, scope, setThreads, type Tensor, tensor, threads, zeros } from "../../src/torch/index.ts";

describe("gradients", () => {
  test("accumulate in the leaves, and can be read, set and cleared", () => {
    scope(() => {
      const x = tensor([1, 2, 3], { requiresGrad: true });
      expect(x.grad).toBeNull();
      x.mul(x).sum().backward();
      x.mul(x).sum().backward();
      expect(x.grad?.toArray()).toEqual([4, 8, 12]);
      x.grad = ones([3]);
      expect(x.grad?.toArray()).toEqual([1, 1, 1]);
      x.grad = null;
      expect(x.grad).toBeNull();
    });
  });

  test("take an upstream gradient, and need one for more than one element", () => {
    scope(() => {
      const x = tensor([1, 2], { requiresGrad: true });
      x.mul(3).backward({ gradient: tensor([1, 10]) });
      expect(x.grad?.toArray()).toEqual([3, 30]);
      expect(() => x.mul(3).backward()).toThrow("TORCH_FAILED");
      expect(() => tensor([1]).backward()).toThrow("TORCH_FAILED");
    });
  });

  test("grad() leaves .grad alone, takes second derivatives and allows unused inputs", () => {
    scope(() => {
      const x = tensor([2], { requiresGrad: true });
      const other = tensor([1], { requiresGrad: true });
      const [first] = grad([x.pow(3)], [x], { createGraph: true }) as [Tensor];
      const [second] = grad([first], [x]) as [Tensor];
      expect([first.item(), second.item(), x.grad]).toEqual([12, 12, null]);
      expect(grad([x.mul(2)], [x, other], { allowUnused: true })[1]).toBeNull();
      expect(() => grad([x.mul(2)], [x, other])).toThrow("TORCH_FAILED");
    });
  });

  test("noGrad and enableGrad nest and are put back, also after an error", () => {
    scope(() => {
      const x = tensor([1], { requiresGrad: true });
      expect(noGrad(() => [x.mul(2).requiresGrad, enableGrad(() => x.mul(2).requiresGrad), x.mul(2).requiresGrad])).toEqual([false, true, false]);
      expect(() =>
        noGrad(() => {
          throw new Error("x");
        }),
      ).toThrow("x");
      expect(x.mul(2).requiresGrad).toBe(true);
    });
  });

  test("a graph outlives the scope its parts were made in", () => {
    scope(() => {
      const x = tensor([1, 2], { requiresGrad: true });
      const y = scope(() => x.exp().mul(x).sum());
      y.backward();
      expect(x.grad).toBeAllClose([2 * Math.E, 3 * Math.E ** 2]);
    });
  });
});

describe("autocast", () => {
  test("runs matrix products in bfloat16, and is put back", () => {
    scope(() => {
      const a = ones([2, 2]);
      expect(autocast({}, () => [a.matmul(a).dtype, autocast({ enabled: false }, () => a.matmul(a).dtype), a.matmul(a).dtype])).toEqual(["bfloat16", "float32", "bfloat16"]);
      expect(a.matmul(a).dtype).toBe("float32");
      expect(() =>
        autocast({}, () => {
          throw new Error("x");
        }),
      ).toThrow("x");
      expect(a.matmul(a).dtype).toBe("float32");
    });
  });

  test("a weight updated in place is seen by the next forward", () => {
    scope(() => {
      const weight = ones([2, 2], { requiresGrad: true });
      const x = ones([1, 2]);
      const forward = () => autocast({}, () => x.matmul(weight).sum().item());
      expect(forward()).toBe(4);
      noGrad(() => weight.mul_(2));
      expect(forward()).toBe(8);
    });
  });

  test.runIf(describeLibtorch().version.startsWith("1."))("what libtorch 1.13 cannot do in float16 on the CPU is an error with a code", () => {
    scope(() => {
      const a = ones([2, 2]).to({ dtype: "float16" });
      for (const call of [() => a.matmul(a), () => a.logSoftmax(-1)]) expect(call).toThrow("TORCH_FAILED");
    });
  });

  test("custom operators and their backward take part", () => {
    scope(() => {
      const weight = ones([2, 2], { requiresGrad: true });
      const logScale = tensor(0, { requiresGrad: true });
      const bias = zeros([2], { requiresGrad: true });
      autocast({}, () => ops.biasNorm(tensor([[1, 2]]).matmul(weight), bias, logScale).sum()).backward();
      for (const t of [weight, logScale, bias]) {
        expect(t.grad?.dtype).toBe("float32");
        expect(t.grad?.isfinite().all().item()).toBe(1);
      }
    });
  });
});

describe("threads", () => {
  const before = threads();
  afterEach(() => setThreads(before));

  test("can be set and read", () => {
    setThreads(2);
    expect(threads()).toBe(2);
    expect(() => setThreads(0)).toThrow();
    expect(() => setThreads(Number.NaN)).toThrow();
    expect(threads()).toBe(2);
  });

  test("four training steps with two threads are the same bit for bit, twice", () => {
    setThreads(2);
    const run = () =>
      scope(() => {
        const weight = tensor(Array.from({ length: 64 * 64 }, (_, i) => Math.sin(i)))
          .view([64, 64])
          .clone()
          .requiresGrad_(true);
        const x = tensor(Array.from({ length: 512 * 64 }, (_, i) => Math.cos(i))).view([512, 64]);
        for (let i = 0; i < 4; i++) {
          weight.grad = null;
          x.matmul(weight).tanh().pow(2).mean().backward();
          noGrad(() => weight.sub_((weight.grad as Tensor).mul(0.1)));
        }
        return Buffer.from(weight.toTypedArray().buffer).toString("hex");
      });
    expect(run()).toBe(run());
  });
});
