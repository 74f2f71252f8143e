import { describe, expect, test } from "vitest";
import { checkDevice, describeLibtorch, Generator } from "../../src/torch/index.ts";

const refused = (message: RegExp) => expect.objectContaining({ code: "TORCH_NO_DEVICE", message: expect.stringMatching(message) });

describe("devices", () => {
  test("the CPU is there always", () => {
    expect(() => checkDevice("cpu")).not.toThrow();
  });

  test.each(["gpu", "", "cuda:", "cuda:-1", "CUDA", "cuda:x", "cpu:frame #0"])("an unknown name is refused: %j", (name) => {
    expect(() => checkDevice(name)).toThrow(refused(/there is no device .* Use "cpu", "cuda" or/));
    expect(() => new Generator(1, { device: name })).toThrow(refused(/there is no device/));
  });

  test("a GPU of a number that is not there is refused, without frames of C++", () => {
    expect(() => checkDevice("cuda:97")).toThrow(refused(/--device cpu/));
    expect(() => checkDevice("cuda:97")).not.toThrow(expect.objectContaining({ message: expect.stringMatching(/frame #|Exception raised/) }));
  });

  test.skipIf(describeLibtorch().cuda)("without CUDA the error says so, and that the CPU can be used", () => {
    for (const name of ["cuda", "cuda:7"]) {
      expect(() => checkDevice(name)).toThrow(refused(/^CUDA is not there: libtorch [\d.]+.* has no CUDA, or no device is visible \[TORCH_NO_DEVICE\]\. Use --device cpu/));
      expect(() => new Generator(1, { device: name })).toThrow(refused(/^CUDA is not there/));
    }
  });
});
