import { expect, test } from "vitest";
import { Progress, showDuration, showNumber } from "../../src/util/progress.ts";

function progress(isTTY: boolean, total?: number) {
  const state = { now: 0, text: "" };
  const stream = { write: (text: string) => (state.text += text), isTTY, columns: 60 };
  return { state, progress: new Progress({ total, unit: "utterances", label: "decode", stream, interval: 5, clock: () => state.now }) };
}

test("a pipe gets a line every interval, with rate and time left, and one at the end", () => {
  const { state, progress: p } = progress(false, 100);
  for (state.now = 1; state.now <= 10; state.now++) p.add(2, "loss 0.5");
  p.finish();
  expect(state.text.split("\n")).toEqual([
    "decode: 10/100 utterances, 2/s, 45 s left, loss 0.5",
    "decode: 20/100 utterances, 2/s, 40 s left, loss 0.5",
    "decode: 20/100 utterances, 1.82/s, in 11 s, loss 0.5",
    "",
  ]);
});

test("a terminal gets one line, repainted at most ten times a second and never longer than it is wide", () => {
  const { state, progress: p } = progress(true, 100);
  for (let i = 0; i < 100; i++) {
    state.now += 0.01;
    p.add(1, "x".repeat(100));
  }
  expect(state.text.split("\r").length - 1).toBeLessThanOrEqual(10);
  for (const line of state.text.split("\r")) expect(line.length).toBeLessThan(60);
  expect(state.text).not.toContain("\n");
});

test("an unknown total shows what is done", () => {
  const { state, progress: p } = progress(false);
  state.now = 6;
  p.update(3);
  expect(state.text).toBe("decode: 3 utterances, 0.500/s\n");
});

test("what was done before it began tells nothing of the speed", () => {
  const state = { now: 0, text: "" };
  const p = new Progress({ total: 250, from: 200, unit: "batches", stream: { write: (text: string) => (state.text += text) }, clock: () => state.now });
  state.now = 10;
  p.update(205);
  p.finish();
  expect(state.text).toBe("205/250 batches, 0.500/s, 1 min 30 s left\n205/250 batches, 0.500/s, in 10 s\n");
});

test("durations and numbers read well", () => {
  expect([0.4, 59.4, 61, 3600, 7500].map(showDuration)).toEqual(["0 s", "59 s", "1 min 01 s", "1 h 00 min", "2 h 05 min"]);
  expect([1, 0.5, 1.234, 12.34, 123.4].map(showNumber)).toEqual(["1", "0.500", "1.23", "12.3", "123"]);
});
