/** The curves of docs/training.md: drawn from metrics.jsonl. */
import { expect, test } from "vitest";
// @ts-expect-error a script without types
import { plot, pointsOf } from "../../scripts/plot-metrics.mjs";

const lines = (...values: object[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join("");
const train = (batch: number, loss: number | null) => ({ kind: "train", epoch: 1, batch, loss });
const valid = (batch: number, loss: number, wer?: number) => ({ kind: "valid", epoch: 1, batch, loss, ...(wer === undefined ? {} : { wer }) });

test("updates that were made again after a kill count once, as they were made last; what is not finite is left out", () => {
  const text = lines(train(1, 8), train(101, 4), train(201, 3), valid(250, 2, 0.5), train(101, 5), train(201, 2), train(251, null), valid(300, 1, 0.25));
  expect(pointsOf(text)).toEqual({
    train: [
      [1, 8],
      [101, 5],
      [201, 2],
    ],
    valid: [[300, 1]],
    wer: [[300, 25]],
  });
});

test("a falling loss falls in the picture, runs have their colours and labels, and marks are escaped", () => {
  const svg = plot("<two> runs", [
    { label: "a", text: lines(train(1, 8), train(100, 2), train(200, 1), valid(200, 1, 1)) },
    { label: "b & c", text: lines(train(1, 4), train(200, 2)) },
  ]) as string;
  const drawn = [...svg.matchAll(/<polyline stroke="(#\w+)" points="([^"]+)"/g)].map(([, colour, points]) => ({
    colour,
    ys: [...(points as string).matchAll(/\S+ (\S+)/g)].map(([, y]) => Number(y)),
  }));
  expect(drawn).toHaveLength(2);
  expect(drawn[0]?.colour).not.toBe(drawn[1]?.colour);
  for (const { ys } of drawn) expect(ys).toEqual([...ys].sort((a, b) => a - b)); // downwards
  expect(svg).toContain("&lt;two&gt; runs");
  expect(svg).toContain(">b &amp; c</text>");
  expect(svg.match(/<circle/g)).toHaveLength(2);
  expect(() => plot("nothing", [{ label: "a", text: "" }])).toThrow(/no losses/);
});
