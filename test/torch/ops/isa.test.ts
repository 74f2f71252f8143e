/** The choice of instructions. The other tests of operators run with each set: see vitest.config.ts. */
import { expect, test } from "vitest";
import { describeLibtorch, Generator, isas, ops, randn } from "../../../src/torch/index.ts";
import { checkIsa } from "../../../src/torch/isa.ts";
import { torchAddon } from "../../../src/torch/native.ts";
import { ConfigError } from "../../../src/util/errors.ts";

test("kernels use what SERAC_ISA names, else the best of the CPU", () => {
  expect(isas()[0]).toBe("plain");
  expect(["plain", "avx2", "avx512", "avx512bf16", "amx"].slice(0, isas().length)).toEqual(isas());
  expect(describeLibtorch().isa).toBe(process.env["SERAC_ISA"] || isas().at(-1));
});

test("what the CPU does not have is refused by name", () => {
  expect(checkIsa(undefined, ["plain", "avx2"])).toBe("avx2");
  expect(checkIsa("", ["plain", "avx2"])).toBe("avx2");
  expect(checkIsa("plain", ["plain", "avx2"])).toBe("plain");
  for (const wanted of ["avx512", "AVX2", "sse9"]) expect(() => checkIsa(wanted, ["plain", "avx2"])).toThrow(ConfigError);
  expect(() => checkIsa("avx512", ["plain", "avx2"])).toThrow(
    'SERAC_ISA: this CPU has no instructions called "avx512", it has plain, avx2 [CONFIG_BAD_VALUE]. Set SERAC_ISA to one of those, or unset it, which means avx2',
  );
});

test.runIf(isas().length > 1)("the choice reaches the kernels: without fused multiply-adds sums are rounded otherwise", () => {
  const before = describeLibtorch().isa;
  const x = randn([1000], { generator: new Generator(3) });
  const values = (isa: string): number[] => {
    torchAddon().setIsa(isa);
    return ops.swooshLExact(x).toArray();
  };
  try {
    const [plain, fused] = [values("plain"), values("avx2")];
    expect(plain).not.toEqual(fused);
    expect(plain).toBeAllClose(fused, { rtol: 1e-5, atol: 1e-6 });
    expect(values("plain")).toEqual(plain);
    expect(() => torchAddon().setIsa("sse9")).toThrow(/no set of instructions named sse9/);
  } finally {
    torchAddon().setIsa(before);
  }
});
