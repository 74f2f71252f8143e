import { describe, expect, test } from "vitest";
import { callOperator, Generator, listOperators, ones, ops, scope, type Tensor, tensor, zeros } from "../../src/torch/index.ts";
import { SeracError } from "../../src/util/errors.ts";

/** The error of a call, as code and message. */
function failure(call: () => unknown): { code: string; message: string } {
  try {
    call();
  } catch (error) {
    if (error instanceof SeracError) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("nothing was thrown");
}
const call = (name: string, args: readonly unknown[], named: Record<string, unknown> = {}): unknown => callOperator(name, args as Tensor[], named as Record<string, Tensor>);

describe("the boxed call", () => {
  test("reaches every operator of the loaded libtorch", () => {
    const names = listOperators();
    expect(names.length).toBeGreaterThan(2000);
    expect(names).toEqual(expect.arrayContaining(["aten::add.Tensor", "aten::conv2d", "serac::swoosh_l"]));
  });

  test("takes positional and named arguments, and the schema's defaults", () => {
    scope(() => {
      const a = tensor([1, 2]);
      expect((call("aten::add.Tensor", [a, a]) as Tensor).toArray()).toEqual([2, 4]);
      expect((call("aten::add.Tensor", [a, a], { alpha: 10 }) as Tensor).toArray()).toEqual([11, 22]);
      expect((call("aten::add.Tensor", [], { self: a, other: a, alpha: undefined }) as Tensor).toArray()).toEqual([2, 4]);
      expect((call("aten::sum", [tensor([1.5, 2])], { dtype: "int64" }) as Tensor).dtype).toBe("int64");
    });
  });

  test("returns tuples, lists, numbers and booleans as such", () => {
    scope(() => {
      const a = tensor([
        [3, 1],
        [2, 5],
      ]);
      const [values, indices] = call("aten::max.dim", [a, 1]) as [Tensor, Tensor];
      expect([values.toArray(), indices.toArray()]).toEqual([
        [3, 5],
        [0, 1],
      ]);
      const parts = call("aten::split.Tensor", [a, 1]) as Tensor[];
      expect(parts.map((part) => part.toArray())).toEqual([
        [3, 1],
        [2, 5],
      ]);
      expect(call("aten::equal", [a, a])).toBe(true);
      expect(call("aten::is_nonzero", [tensor([0])])).toBe(false);
      expect(call("aten::size.int", [a, 1])).toBe(2);
    });
  });

  test("takes lists of tensors with gaps, strings, dtypes and generators", () => {
    scope(() => {
      const a = tensor([
        [1, 2, 3],
        [4, 5, 6],
      ]);
      expect((call("aten::index.Tensor", [a, [null, tensor([2, 0], { dtype: "int64" })]]) as Tensor).toArray()).toEqual([3, 1, 6, 4]);
      expect((call("aten::einsum", ["ij,kj->ik", [a, a]]) as Tensor).toArray()).toEqual([14, 32, 32, 77]);
      const draw = () => (call("aten::randn.generator", [[4]], { generator: new Generator(7) }) as Tensor).toArray();
      expect(draw()).toEqual(draw());
    });
  });

  test("keeps whole numbers beyond 2^53, infinities and NaN", () => {
    scope(() => {
      const big = call("aten::full", [[1], 9007199254740993n], { dtype: "int64" }) as Tensor;
      expect(big.toTypedArray()).toEqual(BigInt64Array.of(9007199254740993n));
      expect((call("aten::full", [[3], Number.NEGATIVE_INFINITY]) as Tensor).toArray()).toEqual([-Infinity, -Infinity, -Infinity]);
      expect((call("aten::full", [[1], Number.NaN]) as Tensor).toArray()).toEqual([Number.NaN]);
    });
  });

  test("what is wrong with a call names operator, argument and what was expected", () => {
    scope(() => {
      const a = zeros([2, 3]);
      expect(failure(() => call("aten::add.Tensor", [a, "x"]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringMatching(/aten::add\.Tensor.*other.*Tensor/s) });
      expect(failure(() => call("aten::add.Tensor", [a]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringMatching(/aten::add\.Tensor.*other/s) });
      expect(failure(() => call("aten::add.Tensor", [a, null]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("other") });
      expect(failure(() => call("aten::transpose.int", [a, 0, 1.5]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringMatching(/dim1.*int/s) });
      expect(failure(() => call("aten::view", [a, ["3", 2]]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("size") });
      expect(failure(() => call("aten::cat", [[a, 3]]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("tensors") });
      expect(failure(() => call("aten::cat", [a]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("tensors") });
      expect(failure(() => call("aten::sum", [a], { dtype: "float31" })).code).toBe("TORCH_BAD_ARGUMENT");
      expect(failure(() => call("aten::bernoulli", [a], { generator: a }))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("generator") });
      expect(failure(() => call("aten::add.Tensor", [a, a, a]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT" });
      expect(failure(() => call("aten::add.Tensor", [a, a, 1, 1, 1]))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("3 arguments") });
      expect(failure(() => call("aten::add.Tensor", [a, a], { alfa: 1 }))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("alfa") });
      expect(failure(() => call("aten::add.Tensor", [a, a], { other: a }))).toMatchObject({ code: "TORCH_BAD_ARGUMENT", message: expect.stringContaining("twice") });
      expect(failure(() => call("aten::add.Tensor", [a, { a: 1 }])).code).toBe("TORCH_BAD_ARGUMENT");
      expect(failure(() => call("aten::add.Tensor", [a, () => 1])).code).toBe("TORCH_BAD_ARGUMENT");
    });
  });

  test("unknown operators and overloads are errors, and so are names that are none", () => {
    for (const name of ["aten::frobnicate", "aten::add.Frobnicate", "add", "", "aten::", "::", "aten::add.Tensor.x"])
      expect(failure(() => call(name, [])).code).toBe("TORCH_UNKNOWN_OPERATOR");
  });

  test("libtorch's own errors name the operator and the shapes it got", () => {
    scope(() => {
      const { code, message } = failure(() => zeros([2, 3]).matmul(zeros([4, 5])));
      expect(code).toBe("TORCH_FAILED");
      expect(message).toMatch(/aten::matmul.*2, 3.*4, 5/s);
      expect(message).not.toMatch(/Exception raised from|frame #/);
    });
  });

  test("a failed call leaves the next one whole, and leaks nothing", () => {
    scope(() => {
      const a = ones([2]);
      for (let i = 0; i < 100; i++) failure(() => call("aten::add.Tensor", [a, zeros([3])]));
      expect(a.add(a).toArray()).toEqual([2, 2]);
    });
  });

  test("lists may be long", () => {
    scope(() => {
      const many = Array.from({ length: 5000 }, (_, i) => tensor([i]));
      expect((call("aten::cat", [many]) as Tensor).sum().item()).toBe((5000 * 4999) / 2);
    });
  });

  test("serac's operators are called the same way", () => {
    scope(() => expect(ops.swooshLExact(zeros([3])).shape).toEqual([3]));
  });
});
