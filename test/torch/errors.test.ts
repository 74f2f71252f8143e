import { describe, expect, test } from "vitest";
import { callOperator, tensor, zeros } from "../../src/torch/index.ts";
import { torchError, withoutBacktrace } from "../../src/torch/native.ts";

const frames = "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x5c (0x7f in libc10.so)\nframe #7: v8::internal::Builtin + 0x1 (0x55 in node)\n";

describe("errors of libtorch", () => {
  test.each([
    `no kernel\nException raised from init at ./aten/src/ATen/Context.cpp:12 (most recent call first):\n${frames}`,
    `no kernel (Exception raised from init at a.cpp:1)\n${frames}`,
    `no kernel\n${frames}`,
    "no kernel\nC++ CapturedTraceback:\n#4 std::function",
    "no kernel\n",
    "no kernel",
  ])("lose the backtrace of C++: %j", (words) => {
    expect(withoutBacktrace(words)).toBe("no kernel");
    for (const code of ["NATIVE_FAILED", "TORCH_FAILED", "SHAPE_MISMATCH", undefined]) {
      const error = torchError(Object.assign(new Error(words), code === undefined ? {} : { code })) as Error;
      expect(error.message).toMatch(/^no kernel( \[|$)/);
      for (const shown of [error, error.cause].filter((e) => e instanceof Error)) expect(`${shown.message}${shown.stack}`).not.toMatch(/frame #|Exception raised|Captured/);
    }
  });

  test("words of several lines are kept, and words about frames as well", () => {
    const words = "sizes differ:\n  got 3 frames\n  frame #x is no number";
    expect(withoutBacktrace(words)).toBe(words);
  });

  test("real ones show no frames", () => {
    const calls = [
      () => zeros([1e15]),
      () => zeros([2, 3], { device: "cuda" }),
      () => zeros([2, 3], { device: "no such device" }),
      () => tensor([1, 2]).to({ device: "xla" }),
      () => callOperator("aten::view", [tensor([1, 2]), [3]]),
    ];
    for (const call of calls) {
      let error: unknown;
      try {
        call();
      } catch (thrown) {
        error = thrown;
      }
      if (error === undefined) continue; // a GPU is there
      expect(error).toMatchObject({ code: expect.any(String) });
      expect(String((error as Error).stack)).not.toMatch(/frame #\d|Exception raised/);
    }
  });
});
