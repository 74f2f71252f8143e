import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AsrModel, Conv2dSubsampling, featurePadding, StreamingEncoder, stackStates, subsampledLength, unstackStates, Zipformer2 } from "../../src/models/index.ts";
import { cat, fromTypedArray, full, Generator, liveTensors, noGrad, randn, scope, type Tensor, zeros } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";
import { wave } from "../golden.ts";
import { fillByWaves, goldenModel } from "./helpers.ts";

/** Features (T, F) padded behind, as after the end of a stream, until so many chunks can be stepped over. */
function padded(features: Tensor, chunks: number, { shift, chunkFrames }: StreamingEncoder): Tensor {
  const missing = (chunks - 1) * shift + chunkFrames - features.size(0);
  return missing <= 0 ? features : cat([features, full([missing, features.size(1)], featurePadding)], 0);
}

/** One stream from its start, chunk by chunk: (1, T, C). */
function stepOver(encoder: StreamingEncoder, features: Tensor, chunks: number): Tensor {
  let states = encoder.initStates();
  const x = padded(features, chunks, encoder);
  const outputs: Tensor[] = [];
  for (let i = 0; i < chunks; i++) {
    const part = x.slice(0, i * encoder.shift, i * encoder.shift + encoder.chunkFrames);
    const step = encoder.step(part.unsqueeze(0), states);
    states = step.states;
    outputs.push(step.encoderOut);
  }
  return cat(outputs, 1);
}

describe("golden/asr_causal", () => {
  const { model, tensors, metadata, x, xLens } = goldenModel("asr_causal");
  const settings = JSON.parse(metadata.chunk as string);
  const chunks = { chunkSize: settings.chunk_size as number, leftContextFrames: settings.left_context_frames as number };
  const encoder = model.streaming(chunks);

  test("chunk by chunk it equals the reference's streaming output", () => {
    expect([encoder.shift, encoder.chunkFrames]).toEqual([32, 45]); // as the file says
    const expected = tensors["streaming.encoder_out"] as Tensor;
    const features = x.select(0, 0).slice(0, 0, xLens[0]);
    const out = scope(() => stepOver(encoder, features, expected.size(1) / (chunks.chunkSize / 2)));
    expect(out.shape).toEqual(expected.shape);
    expect(out).toBeAllClose(expected);
  });

  test("the states are icefall's: six of every layer, the front end's frames, and the frames behind", () => {
    const layer = (left: number, channels: number, nonlin: number, past: number): number[][] => {
      const [attended, convolved] = [
        [left, 2, 48],
        [2, channels, past],
      ];
      return [[left, 2, 64], [1, 2, left, nonlin], attended, attended, convolved, convolved];
    };
    const expected = [...layer(64, 24, 18, 7), ...layer(32, 32, 24, 7), ...layer(32, 32, 24, 7), ...layer(16, 40, 30, 3), [2, 128, 3, 19], [2]];
    expect(encoder.stateShapes(2)).toEqual(expected);
    scope(() => {
      const states = encoder.initStates(2);
      const after = encoder.step(zeros([2, 45, 80]), states).states;
      for (const list of [states, after]) {
        expect(list.map((state) => state.shape)).toEqual(expected);
        expect(list.at(-1)?.dtype).toBe("int32");
      }
      expect(states.every((state) => state.abs().max().item() === 0)).toBe(true); // a step leaves them as they are
      expect(after.at(-1)?.toArray()).toEqual([16, 16]);
    });
  });
});

test("a tiny encoder has the printed streaming values", () => {
  scope(() => {
    const generator = new Generator(1);
    const frontEnd = new Conv2dSubsampling({ featureDim: 80, outChannels: 32, generator });
    const encoder = new Zipformer2({
      downsamplingFactor: [1, 2],
      numEncoderLayers: [1, 2],
      encoderDim: [32, 48],
      encoderUnmaskedDim: [24, 32],
      queryHeadDim: 8,
      posHeadDim: 4,
      valueHeadDim: 4,
      posDim: 16,
      numHeads: 4,
      feedforwardDim: [64, 96],
      cnnModuleKernel: [7, 5],
      causal: true,
      chunkSize: [4],
      leftContextFrames: [8],
      generator,
    });
    fillByWaves(frontEnd, wave);
    fillByWaves(encoder, wave);
    const x = fromTypedArray(Float32Array.from(wave([2, 39, 80])), [2, 39, 80]);
    const out = stepOver(new StreamingEncoder(frontEnd, encoder, { chunkSize: 4, leftContextFrames: 8 }), x.select(0, 0), 5);
    expect(out.shape).toEqual([1, 10, 48]);
    expect(out.flatten().slice(0, 0, 4)).toBeAllClose([0.852546, 0.559565, 0.110434, -0.995697]);
    expect(out.sum().item()).toBeCloseTo(50.47692, 2);
  });
});

/** A small model whose parameters are all other than zero. */
function smallModel(generator: Generator): AsrModel {
  const model = new AsrModel({
    vocabSize: 20,
    numEncoderLayers: [1, 2, 1],
    downsamplingFactor: [1, 2, 4],
    encoderDim: [16, 24, 16],
    encoderUnmaskedDim: 16,
    feedforwardDim: 24,
    numHeads: [2, 4, 2],
    queryHeadDim: 8,
    valueHeadDim: 4,
    posDim: 16,
    cnnModuleKernel: [9, 7, 5],
    frontEndChannels: [2, 4, 8],
    featureDim: 24,
    decoderDim: 16,
    joinerDim: 16,
    causal: true,
    generator,
  });
  fillByWaves(model.encoderEmbed, wave);
  fillByWaves(model.encoder, wave);
  return model.eval();
}

describe("any cut of the input gives the simulated output", () => {
  const model = smallModel(new Generator(1));
  /** The outputs of `forwardEncoder` with these chunks, of the frames that have all of their look-ahead: (1, T, C). */
  const simulated = (encoder: StreamingEncoder, features: Tensor, chunks: number): Tensor => {
    const x = padded(features, chunks, encoder);
    return model.forwardEncoder(x.unsqueeze(0), [x.size(0)], encoder).encoderOut.slice(1, 0, (chunks * encoder.chunkSize) / 2);
  };
  const sizes = fc
    .constantFrom(4, 8, 12, 20)
    .chain((chunkSize) => fc.record({ chunkSize: fc.constant(chunkSize), contexts: fc.integer({ min: Math.ceil(8 / chunkSize), max: 5 }) }));

  test("in chunks of every size and left context", () => {
    noGrad(() => {
      fc.assert(
        fc.property(sizes, fc.integer({ min: 1, max: 150 }), fc.nat(1000), ({ chunkSize, contexts }, frames, seed) => {
          scope(() => {
            const encoder = model.streaming({ chunkSize, leftContextFrames: chunkSize * contexts });
            const features = randn([frames, 24], { generator: new Generator(seed) });
            const chunks = Math.ceil((frames + 13) / encoder.shift);
            expect(stepOver(encoder, features, chunks)).toBeAllClose(simulated(encoder, features, chunks));
          });
        }),
        { numRuns: 40 },
      );
    });
  });

  test("in batches of streams that start, wait and end at their own times", () => {
    noGrad(() => {
      fc.assert(
        fc.property(sizes, fc.array(fc.integer({ min: 1, max: 120 }), { minLength: 1, maxLength: 5 }), fc.nat(1000), ({ chunkSize, contexts }, lengths, seed) => {
          scope(() => {
            const encoder = model.streaming({ chunkSize, leftContextFrames: chunkSize * contexts });
            const random = new Random(seed);
            const streams = lengths.map((length, i) => {
              const chunks = Math.ceil((length + 13) / encoder.shift);
              const features = randn([length, 24], { generator: new Generator(seed + i) });
              return { features, chunks, input: padded(features, chunks, encoder), states: encoder.initStates(), outputs: [] as Tensor[] };
            });
            const open = (): typeof streams => streams.filter(({ outputs, chunks }) => outputs.length < chunks);
            while (open().length > 0) {
              const chosen = open().filter(() => random.uniform() < 0.6);
              if (chosen.length === 0) continue;
              const batch = cat(
                chosen.map(({ input, outputs }) => input.slice(0, outputs.length * encoder.shift, outputs.length * encoder.shift + encoder.chunkFrames).unsqueeze(0)),
                0,
              );
              const { encoderOut, states } = encoder.step(batch, stackStates(chosen.map((stream) => stream.states)));
              for (const [n, own] of unstackStates(states).entries()) {
                const stream = chosen[n] as (typeof streams)[number];
                stream.states = own;
                stream.outputs.push(encoderOut.slice(0, n, n + 1));
              }
            }
            for (const { features, chunks, outputs } of streams) expect(cat(outputs, 1)).toBeAllClose(simulated(encoder, features, chunks));
          });
        }),
        { numRuns: 25 },
      );
    });
  });

  test("what was not padded also equals the output of the recording alone, but for its last frames", () => {
    noGrad(() => {
      const encoder = model.streaming({ chunkSize: 8, leftContextFrames: 16 });
      const features = randn([157, 24], { generator: new Generator(3) });
      const whole = model.forwardEncoder(features.unsqueeze(0), [157], encoder).encoderOut;
      const known = Math.floor((subsampledLength(157) - 3) / 8) * 4; // chunks whose every frame sees no padding
      expect(known).toBeGreaterThan(30);
      expect(stepOver(encoder, features, 9).slice(1, 0, known)).toBeAllClose(whole.slice(1, 0, known));
    });
  });

  test("states of streams at other places do not mix", () => {
    scope(() => {
      const encoder = model.streaming({ chunkSize: 8, leftContextFrames: 16 });
      const first = encoder.step(randn([1, 29, 24]), encoder.initStates()).states;
      const second = encoder.initStates();
      const [a, b] = unstackStates(stackStates([first, second])) as [Tensor[], Tensor[]];
      for (const [i, state] of first.entries()) expect(a[i]).toBeAllClose(state, { rtol: 0, atol: 0 });
      for (const [i, state] of second.entries()) expect(b[i]).toBeAllClose(state, { rtol: 0, atol: 0 });
    });
  });

  test("leaves no tensors behind", () => {
    const encoder = model.streaming({ chunkSize: 8, leftContextFrames: 16 });
    const features = randn([2, 29, 24]);
    let states = encoder.initStates(2);
    const live = liveTensors();
    for (let i = 0; i < 3; i++) {
      const { encoderOut, states: after } = encoder.step(features, states);
      for (const state of [encoderOut, ...states]) state.dispose();
      states = after;
    }
    expect(liveTensors()).toBe(live);
    for (const alone of unstackStates(states)) for (const state of alone) state.dispose();
    for (const state of stackStates([states, states])) state.dispose();
    expect(() => encoder.step(zeros([2, 28, 24]), states)).toThrow();
    expect(liveTensors()).toBe(live + 1);
  });
});

describe("refused", () => {
  const model = smallModel(new Generator(1));
  const encoder = model.streaming({ chunkSize: 8, leftContextFrames: 16 });

  test("chunks that the model cannot have", () => {
    for (const [chunkSize, leftContextFrames, name] of [
      [-1, 64, "chunkSize"],
      [7, 14, "chunkSize"],
      [6, 12, "chunkSize"], // not a multiple of the largest factor
      [8, -1, "leftContextFrames"],
      [8, 0, "leftContextFrames"],
      [8, 20, "leftContextFrames"],
      [4, 4, "leftContextFrames"], // less than a convolution looks back
      [Number.NaN, 16, "chunkSize"],
    ] as const)
      expect(() => model.streaming({ chunkSize, leftContextFrames }), `${chunkSize} ${leftContextFrames}`).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE", at: name }));
    const { options } = model;
    const full = new AsrModel({ ...options, causal: false, generator: new Generator(1) });
    expect(() => full.streaming({ chunkSize: 8, leftContextFrames: 16 })).toThrow(/cannot stream/);
  });

  test("shapes that do not fit, by name", () => {
    const states = encoder.initStates(2);
    expect(() => encoder.step(zeros([2, 28, 24]), states)).toThrow(/\(2, 28, 24\), expected \(N, 29, 24\)/);
    expect(() => encoder.step(zeros([1, 29, 24]), states)).toThrow(/state 0: got a tensor of shape \(16, 2, 16\), expected \(16, 1, 16\)/);
    expect(() => encoder.step(zeros([2, 29, 24]), states.slice(1))).toThrow(/got 25 states, expected 26/);
    const other = model.streaming({ chunkSize: 8, leftContextFrames: 24 }).initStates(1);
    expect(() => stackStates([states, other])).toThrow(/states 1, tensor 0: got \(24, 1, 16\), expected \(16, 2, 16\) as in states 0/);
    expect(() => stackStates([states, other.slice(6)])).toThrow(/got 20 tensors, expected 26 tensors/);
    expect(() => stackStates([])).toThrow(/no stream/);
    expect(() => stackStates([states.slice(2)])).toThrow(/got 24 tensors/);
    expect(() => unstackStates([...states.slice(0, -1), zeros([3], { dtype: "int32" })])).toThrow(/tensor 0: got \(16, 2, 16\), expected 3 in dimension 1/);
  });

  test("a model in training", () => {
    const states = encoder.initStates();
    model.train({ random: new Random(1), generator: new Generator(1) });
    expect(() => encoder.step(zeros([1, 29, 24]), states)).toThrow(/eval\(\)/);
    model.eval();
  });
});
