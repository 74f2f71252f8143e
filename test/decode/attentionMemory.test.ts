import { describe, expect, test } from "vitest";
import { attentionBytes, longestFrames, memoryForAttention } from "../../src/decode/attentionMemory.ts";
import { Zipformer2 } from "../../src/models/zipformer/index.ts";
import { allocatedBytes, Generator, noGrad, peakBytes, randn, scope } from "../../src/torch/index.ts";

describe("memory of attention", () => {
  test.each([
    { numHeads: [4, 2], downsamplingFactor: [1, 2] },
    { numHeads: [2, 8], downsamplingFactor: [1, 2] },
    { numHeads: [4], downsamplingFactor: [2, 4] },
  ])("is what encoding takes, to within a quarter: %j", (config) => {
    const generator = new Generator(0);
    const shape = { encoderDim: 16, encoderUnmaskedDim: 16, feedforwardDim: 16, queryHeadDim: 4, valueHeadDim: 4, posDim: 8, cnnModuleKernel: 7, numEncoderLayers: [1, 1] };
    const encoder = new Zipformer2({ ...config, ...shape, generator });
    encoder.eval();
    const taken = scope(() => {
      const x = randn([1496, 1, 16], { generator }); // 3000 frames of features, halved by the front end
      const before = allocatedBytes();
      peakBytes({ reset: true });
      noGrad(() => scope(() => void encoder.forward(x, [1496])));
      return peakBytes() - before;
    });
    const estimate = attentionBytes(config, 3000);
    expect(estimate).toBeGreaterThan(taken * 0.8);
    expect(estimate).toBeLessThan(taken * 1.25);
    encoder.dispose();
  });

  test("the longest recording that fits is the longest", () => {
    const config = { numHeads: [4, 4, 4, 8, 4, 4], downsamplingFactor: [1, 2, 4, 8, 4, 2] };
    for (const bytes of [1e6, 1e9, 3.7e10]) {
      const frames = longestFrames(config, bytes);
      expect(attentionBytes(config, frames)).toBeLessThanOrEqual(bytes);
      expect(attentionBytes(config, frames + 4)).toBeGreaterThan(bytes);
    }
    expect(attentionBytes(config, 1000, 3)).toBe(3 * attentionBytes(config, 1000));
    expect(attentionBytes(config, 5)).toBe(0);
    expect(memoryForAttention()).toBeGreaterThan(0);
  });
});
