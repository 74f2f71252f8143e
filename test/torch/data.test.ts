import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DType, fromTypedArray, liveTensors, ones, scope, type TypedArray, tensor, zeros } from "../../src/torch/index.ts";
import { collectUntil } from "./collect.ts";

const arrays: Record<DType, fc.Arbitrary<TypedArray>> = {
  uint8: fc.uint8Array({ maxLength: 40 }),
  int8: fc.int8Array({ maxLength: 40 }),
  int16: fc.int16Array({ maxLength: 40 }),
  int32: fc.int32Array({ maxLength: 40 }),
  int64: fc.bigInt64Array({ maxLength: 40 }),
  float16: fc.uint16Array({ maxLength: 40 }),
  bfloat16: fc.uint16Array({ maxLength: 40 }),
  float32: fc.float32Array({ maxLength: 40 }),
  float64: fc.float64Array({ maxLength: 40 }),
  bool: fc.uint8Array({ maxLength: 40, max: 1 }),
};

describe("typed arrays", () => {
  for (const [dtype, arbitrary] of Object.entries(arrays) as [DType, fc.Arbitrary<TypedArray>][])
    test(`${dtype} goes in and out bit for bit`, () => {
      fc.assert(
        fc.property(arbitrary, fc.boolean(), (data, share) =>
          scope(() => {
            const t = fromTypedArray(data, [data.length], { dtype, share });
            expect(t.dtype).toBe(dtype);
            const back = t.toTypedArray();
            expect(back.constructor).toBe(data.constructor);
            expect(Buffer.from(back.buffer)).toEqual(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
          }),
        ),
        { numRuns: 50 },
      );
    });

  test("a part of a larger buffer is that part", () => {
    scope(() => {
      const whole = Float32Array.of(0, 1, 2, 3, 4);
      expect(fromTypedArray(whole.subarray(1, 4), [3]).toArray()).toEqual([1, 2, 3]);
      expect(fromTypedArray(whole.subarray(1, 4), [3], { share: true }).toArray()).toEqual([1, 2, 3]);
    });
  });

  test("a view with strides comes out row-major", () => {
    scope(() => {
      const t = tensor([
        [1, 2, 3],
        [4, 5, 6],
      ]).transpose(0, 1);
      expect([t.isContiguous, t.strides]).toEqual([false, [1, 3]]);
      expect(t.toArray()).toEqual([1, 4, 2, 5, 3, 6]);
    });
  });

  test("numbers of float16 and bfloat16 are the nearest there are", () => {
    scope(() => {
      expect(tensor([1 / 3, 65504, -2], { dtype: "float16" }).toArray()).toEqual([0.333251953125, 65504, -2]);
      expect(tensor([1 / 3, 300], { dtype: "bfloat16" }).toArray()).toEqual([0.333984375, 300]);
      expect(tensor([true, false, true], { dtype: "bool" }).toArray()).toEqual([1, 0, 1]);
    });
  });

  test("a shape that does not fit, ragged lists and negative or overflowing sizes are refused", () => {
    const data = new Float32Array(6);
    expect(() => fromTypedArray(data, [2, 2])).toThrow("SHAPE_MISMATCH");
    expect(() => fromTypedArray(data, [-1, -6])).toThrow("SHAPE_MISMATCH");
    expect(() => fromTypedArray(new Float32Array(0), [2 ** 32, 2 ** 32])).toThrow();
    expect(() => fromTypedArray(data, [Number.NaN])).toThrow();
    expect(() => tensor([[1], [1, 2]])).toThrow("SHAPE_MISMATCH");
    expect(() => tensor([[1], 2])).toThrow("SHAPE_MISMATCH");
    expect(() => fromTypedArray(new Uint16Array(2), [2])).toThrow("float16 or bfloat16");
  });

  test("item is one number, and an error for more or none", () => {
    scope(() => {
      expect(tensor(2.5).item()).toBe(2.5);
      expect(() => zeros([2]).item()).toThrow("SHAPE_MISMATCH");
      expect(() => zeros([0]).item()).toThrow("SHAPE_MISMATCH");
    });
  });
});

describe("without a copy", () => {
  test("a shared array and its tensor see each other's writes, and the array outlives its own name", async () => {
    const make = () => {
      const data = new Float32Array(1 << 16).fill(3);
      return fromTypedArray(data, [data.length], { share: true });
    };
    const t = make();
    await collectUntil(() => false);
    expect(t.sum().item()).toBe(3 * (1 << 16));
    t.dispose();

    scope(() => {
      const data = Float32Array.of(1, 2);
      const shared = fromTypedArray(data, [2], { share: true });
      data[0] = 5;
      shared.mul_(2);
      expect(Array.from(data)).toEqual([10, 4]);
    });
  });

  test("a shared array is let go once its tensor is", async () => {
    let gone = false;
    const registry = new FinalizationRegistry(() => (gone = true));
    const make = () => {
      const data = new Float32Array(8);
      registry.register(data, undefined);
      fromTypedArray(data, [8], { share: true }).dispose();
    };
    make();
    expect(
      await collectUntil(() => {
        zeros([1]).dispose();
        fromTypedArray(new Float32Array(1), [1]).dispose(); // the next use of the addon is what drops the reference
        return gone;
      }),
    ).toBe(true);
  });

  test("a view keeps the memory when its tensor is freed, and may be taken twice", async () => {
    const make = () => {
      const t = ones([1 << 16]);
      const first = t.viewTypedArray() as Float32Array;
      const second = t.viewTypedArray() as Float32Array;
      t.dispose();
      return [first, second] as const;
    };
    const [first, second] = make();
    await collectUntil(() => false);
    first[0] = 7;
    expect(second[0]).toBe(7);
    expect(first[(1 << 16) - 1]).toBe(1);
  });

  test("only contiguous tensors can be looked into", () => {
    scope(() => {
      expect(() =>
        tensor([
          [1, 2],
          [3, 4],
        ])
          .t()
          .viewTypedArray(),
      ).toThrow("contiguous");
      expect(zeros([0, 3]).viewTypedArray().length).toBe(0);
    });
  });

  test("handles are back where they were", async () => {
    const before = liveTensors();
    scope(() => fromTypedArray(new Float32Array(4), [4], { share: true }).add(1).viewTypedArray());
    expect(liveTensors()).toBe(before);
  });
});
