import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ctcGreedyDecode, type SearchableTransducer, transducerGreedySearch } from "../../src/decode/greedy.ts";
import { embedding, full, Generator, liveTensors, randn, type Tensor, tensor, zeros } from "../../src/torch/index.ts";

const [V, C, context] = [6, 5, 2];

/** A small transducer of random weights whose blank is likelier by `blankBonus`. */
function toyTransducer(seed: number, blankBonus: number): SearchableTransducer {
  const generator = new Generator(seed);
  const table = randn([V, C], { generator });
  const mix = [randn([C, C], { generator }), randn([C, C], { generator })] as [Tensor, Tensor];
  const out = randn([C, V], { generator });
  const bias = zeros([V]);
  bias.slice(0, 0, 1).fill_(blankBonus);
  const embed = (ids: Tensor) => embedding(table, ids.clampMin(0)).maskedFill(ids.lt(0).unsqueeze(-1), 0);
  return {
    decoder: {
      contextSize: context,
      forward: (ids) =>
        embed(ids.slice(1, 0, 1))
          .matmul(mix[0])
          .add(embed(ids.slice(1, 1, 2)).matmul(mix[1])),
    },
    joiner: { encoderProj: { forward: (x) => x.mul(1.5) }, decoderProj: { forward: (x) => x.mul(0.5) }, forward: (e, d) => e.add(d).tanh().matmul(out).add(bias) },
  };
}

/** The search one utterance, one frame and one symbol at a time, from its definition. */
function plainSearch({ decoder, joiner }: SearchableTransducer, encoderOut: Tensor, length: number, unkId: number, maxSymPerFrame: number): { tokens: number[]; frames: number[] } {
  const history = [-1, 0];
  const frames: number[] = [];
  for (let t = 0; t < length; t++) {
    for (let k = 0; k < maxSymPerFrame; k++) {
      const d = joiner.decoderProj.forward(decoder.forward(tensor([history.slice(-context)], { dtype: "int64" }), { padLeft: false }));
      const best = joiner
        .forward(joiner.encoderProj.forward(encoderOut.slice(0, t, t + 1).unsqueeze(0)), d, { project: false })
        .flatten()
        .argmax(0)
        .item();
      if (best === 0 || best === unkId) break;
      history.push(best);
      frames.push(t);
    }
  }
  return { tokens: history.slice(context), frames };
}

describe("transducer greedy search", () => {
  test("equals the search of each utterance alone, symbol by symbol, at every lookahead and limit of symbols a frame", () => {
    let several = 0;
    fc.assert(
      fc.property(
        fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 6 }),
        fc.constantFrom(-1, 1, 3),
        fc.constantFrom(0, 2),
        fc.constantFrom(1, 1, 2, 3, 10),
        fc.nat(1000),
        (lengths, lookahead, bonus, unkId, maxSymPerFrame, seed) => {
          const model = toyTransducer(seed, bonus);
          const encoderOut = randn([lengths.length, Math.max(1, ...lengths), C], { generator: new Generator(seed + 1) });
          const results = transducerGreedySearch(model, encoderOut, lengths, { lookahead, unkId, maxSymPerFrame });
          results.forEach(({ tokens, frames, times }, n) => {
            expect({ tokens, frames }).toEqual(plainSearch(model, encoderOut.select(0, n), lengths[n] as number, unkId, maxSymPerFrame));
            expect(times).toEqual(frames.map((f) => f * 0.04));
            if (new Set(frames).size < frames.length) several++;
          });
          if (maxSymPerFrame === 1) expect(results).toEqual(transducerGreedySearch(model, encoderOut, lengths, { lookahead, unkId }));
        },
      ),
      { numRuns: 120 },
    );
    expect(several).toBeGreaterThan(10);
  });

  test("emits at every frame where blank is never best", () => {
    const [result] = transducerGreedySearch(toyTransducer(1, -100), randn([1, 7, C]), [7]);
    expect(result?.frames).toEqual([0, 1, 2, 3, 4, 5, 6]);
    const [silent] = transducerGreedySearch(toyTransducer(1, 100), randn([1, 7, C]), [7]);
    expect(silent).toEqual({ tokens: [], frames: [], times: [] });
    const [crowded] = transducerGreedySearch(toyTransducer(1, -100), randn([1, 3, C]), [3], { maxSymPerFrame: 2 });
    expect(crowded?.frames).toEqual([0, 0, 1, 1, 2, 2]);
  });

  test("leaves no tensors behind", () => {
    const model = toyTransducer(2, 0.5);
    const encoderOut = randn([3, 20, C]);
    const before = liveTensors();
    transducerGreedySearch(model, encoderOut, [20, 11, 4]);
    expect(liveTensors()).toBe(before);
  });

  test("refuses lengths that do not fit", () => {
    const model = toyTransducer(3, 0);
    expect(() => transducerGreedySearch(model, randn([2, 4, C]), [4])).toThrow(/\(2, 4, 5\) got lengths 4/);
    expect(() => transducerGreedySearch(model, randn([1, 4, C]), [5])).toThrow(/SHAPE_MISMATCH/);
    expect(() => transducerGreedySearch(model, randn([1, 4, C]), [4], { lookahead: 0 })).toThrow(/lookahead/);
    for (const maxSymPerFrame of [0, -1, 1.5, Number.NaN])
      expect(() => transducerGreedySearch(model, randn([1, 4, C]), [4], { maxSymPerFrame })).toThrow(/an integer of at least 1 \[CONFIG_BAD_VALUE\]/);
  });
});

describe("CTC greedy search", () => {
  /** (1, T, 4) with these labels the likeliest. */
  const labelled = (...labels: number[]): Tensor => tensor(labels, { dtype: "int64" }).oneHot(4).to({ dtype: "float32" }).unsqueeze(0);

  test("joins repetitions, leaves out blanks and gives the first frame of each token", () => {
    expect(ctcGreedyDecode(labelled(0, 1, 1, 0, 1, 2, 2, 3, 0), [9])).toEqual([{ tokens: [1, 1, 2, 3], frames: [1, 4, 5, 7], times: [1, 4, 5, 7].map((f) => f * 0.04) }]);
  });

  test("stops at each utterance's end", () => {
    const both = labelled(1, 2, 3, 3).repeat([3, 1, 1]);
    expect(ctcGreedyDecode(both, [4, 2, 0]).map((r) => r.tokens)).toEqual([[1, 2, 3], [1, 2], []]);
  });

  test("equals collapsing the best labels", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 30 }), (labels) => {
        const [result] = ctcGreedyDecode(labelled(...labels), [labels.length]);
        const collapsed = labels.filter((label, t) => label !== labels[t - 1]).filter((label) => label !== 0);
        expect(result?.tokens).toEqual(collapsed);
        expect(result?.frames.map((t) => labels[t])).toEqual(collapsed);
      }),
    );
  });

  test("refuses lengths that do not fit", () => {
    expect(() => ctcGreedyDecode(full([2, 3, 4], 0), [3])).toThrow(/SHAPE_MISMATCH/);
  });
});
