/** What a terminal shows while training, and what a pipe is spared. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Output } from "../../src/cli/output.ts";
import { terminalReporter } from "../../src/cli/trainRun.ts";
import { train } from "../../src/train/index.ts";
import { toneCorpus } from "../train/tones.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-terminal-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function output(isTTY: boolean): { out: Output; text: () => string } {
  let text = "";
  const stderr = { write: (part: string) => (text += part), isTTY, columns: 200 };
  return { out: new Output({ streams: { stdout: { write() {} }, stderr } }), text: () => text };
}

const progress = { epoch: 2, numEpochs: 5, total: 40, loss: 0.53127, audioRate: 43.21, peakBytes: 123_456_789 };

test("a terminal shows epoch, batches, time left, loss, seconds of audio a second and peak memory in a line that stays at the end of an epoch", () => {
  const { out, text } = output(true);
  const reporter = terminalReporter(out);
  // Gone on with in the middle: what was done before tells nothing of the speed.
  for (let done = 31; done <= 40; done++) reporter.progress?.({ ...progress, done });
  const line = text()
    .split(/[\r\n]+/)
    .at(-2);
  expect(line).toMatch(/^epoch 2\/5: 40\/40 batches, [\d.]+\/s, in \d+ s, loss 0\.5313, 43\.2 s of audio\/s, peak 123\.5 MB$/);
  expect(text().endsWith("\n")).toBe(true);
});

test("while training, lines of the log stand above the live line; a pipe has the lines of the log alone", async () => {
  const options = { ...(await toneCorpus(folder)), numEpochs: 1, logInterval: 5 };
  const terminal = output(true);
  await train({ ...options, expDir: join(folder, "terminal") }, { report: terminalReporter(terminal.out) });
  const shown = terminal.text().split(/[\r\n]+/);
  expect(shown.some((line) => /^epoch 1\/1: \d+\/\d+ batches, .*\/s, .* left, loss [\d.]+, [\d.]+ s of audio\/s, peak [\d.]+ MB/.test(line))).toBe(true);
  const pipe = output(false);
  await train({ ...options, expDir: join(folder, "pipe") }, { report: terminalReporter(pipe.out) });
  const lines = pipe.text().split("\n");
  expect(pipe.text()).not.toContain("\r");
  expect(lines.filter((line) => line.includes("batches,"))).toEqual([]);
  const logged = (all: readonly string[]): number => all.filter((line) => /^Epoch 1, batch \d+, loss\[/.test(line)).length;
  expect(logged(lines)).toBeGreaterThan(3);
  expect(logged(shown)).toBe(logged(lines));
  expect(lines).toContainEqual(expect.stringMatching(/^training data: 96 utterances, 0\.\d+ h, [\d.]+ to [\d.]+ s \(median [\d.]+, 95 % below [\d.]+\)$/));
  expect(lines).toContainEqual(
    expect.stringMatching(/^training data: \d+ to \d+ tokens an utterance \(median \d+, 95 % below \d+\), [\d.]+ to [\d.]+ a second \(median [\d.]+, 95 % below [\d.]+\)$/),
  );
});
