import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { bpeTrain } from "../../../src/cli/bpeTrain.ts";
import { Output } from "../../../src/cli/output.ts";
import { loadTexts } from "../../../src/data/index.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-texts-"));
afterAll(() => rmSync(folder, { recursive: true }));

const manifest = (name: string, lines: readonly unknown[]): string => {
  writeFileSync(join(folder, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return join(folder, name);
};

/** A cut as icefall's compute_fbank_librispeech.py writes it, with features and, of copies, with a transform. */
function cut(id: string, text: string, factor?: number): Record<string, unknown> {
  const duration = 2 / (factor ?? 1);
  const transforms = factor === undefined ? undefined : [{ name: "Speed", kwargs: { factor } }];
  const sources = [{ type: "file", channels: [0], source: `nowhere/${id}.flac` }];
  return {
    id,
    start: 0,
    duration,
    channel: 0,
    supervisions: [{ id, recording_id: id, start: 0, duration, channel: 0, text, language: "English", speaker: "1" }],
    recording: { id, sources, sampling_rate: 16000, num_samples: 16000 * duration, duration, channel_ids: [0], ...(transforms ? { transforms } : {}) },
    type: "MonoCut",
  };
}
const withCopies = (id: string, text: string): unknown[] => [cut(id, text), cut(`${id}_sp0.9`, text, 0.9), cut(`${id}_sp1.1`, text, 1.1)];

test("of cuts and their copies at other speeds each text comes once, in the order of the lines", async () => {
  const lines = [...withCopies("a-1-0", "ONE"), ...withCopies("b-1-0", "TWO"), cut("c-1-0", "ONE")];
  const all = manifest("all.jsonl", [...lines.filter((_, i) => i % 3 > 0), ...lines.filter((_, i) => i % 3 === 0)]);
  expect(await loadTexts(all)).toEqual({ texts: ["ONE", "TWO", "ONE"], copies: 4 });
  expect(await loadTexts([manifest("originals.jsonl", [cut("a-1-0", "ONE")]), manifest("copies.jsonl", [cut("a-1-0_sp0.9", "ONE", 0.9)])])).toEqual({ texts: ["ONE"], copies: 1 });
});

test("copies alone stand for their utterance; what only looks like a copy is none", async () => {
  expect(await loadTexts(manifest("alone.jsonl", withCopies("a", "ONE").slice(1)))).toEqual({ texts: ["ONE"], copies: 1 });
  expect(await loadTexts(manifest("like.jsonl", [cut("take_sp1", "ONE"), cut("take_sp2", "TWO"), cut("take", "THREE"), cut("a_sp0.9_vp2.0", "FOUR"), cut("a", "FOUR")]))).toEqual({
    texts: ["ONE", "TWO", "THREE", "FOUR"],
    copies: 1,
  });
});

test("mixtures, cuts of several channels and of features alone, and lines of NeMo's have texts too; bad lines are told", async () => {
  const { recording: _, ...features } = cut("d", "FOUR");
  const mixed = {
    id: "m",
    type: "MixedCut",
    tracks: [
      { cut: cut("t", "FIVE"), offset: 0 },
      { cut: { type: "PaddingCut", id: "p", duration: 1 }, offset: 2 },
      { cut: cut("u", "SIX"), offset: 3 },
    ],
  };
  const multi = { ...cut("e", "SEVEN"), channel: [0, 1], type: "MultiCut" };
  const nemo = { audio_filepath: "nowhere.wav", duration: 1, text: "eight" };
  const errors: (string | undefined)[] = [];
  const path = manifest("kinds.jsonl", [features, mixed, multi, nemo, nemo, { duration: 1 }, { ...nemo, duration: "x" }, { ...cut("s", "NEVER"), custom: { _skipme: true } }]);
  expect(await loadTexts(path, { onError: ({ code }) => void errors.push(code) })).toEqual({ texts: ["FOUR", "FIVE SIX", "SEVEN", "eight", "eight"], copies: 0 });
  expect(errors).toEqual(["MANIFEST_NO_AUDIO", "MANIFEST_BAD_DURATION"]);
  await expect(loadTexts(manifest("bad.jsonl", [{ duration: 1 }]), { onError: () => {} })).rejects.toThrow(/no line can be used: 1 with MANIFEST_NO_AUDIO/);
});

test("serac bpe train makes of cuts with copies the model that it makes without, and leaves none of them out", async () => {
  const words = ["low", "mid", "top", "lower", "middle", "topmost"];
  const texts = Array.from({ length: 40 }, (_, i) => [0, 1, 2].map((k) => words[(i * 7 + k * 5 + ((i * k) % 4)) % words.length]).join(" "));
  const plain = manifest(
    "plain.jsonl",
    texts.map((text, i) => cut(`u${i}`, text)),
  );
  const copied = manifest(
    "copied.jsonl",
    texts.flatMap((text, i) => withCopies(`u${i}`, text)),
  );
  const models = [];
  for (const path of [plain, copied]) {
    let stderr = "";
    const streams = { stdout: { write: () => true }, stderr: { write: (text: string) => (stderr += text) } };
    await bpeTrain
      .parse(["--manifest", path, "--vocab-size", "20", "--out", `${path}.model`])
      .run(new Output({ streams: streams as unknown as ConstructorParameters<typeof Output>[0]["streams"] }));
    expect(stderr).not.toContain("left out");
    expect(stderr.includes("80 cuts are copies of others at another speed: their texts are counted once")).toBe(path === copied);
    models.push(readFileSync(`${path}.model`));
  }
  expect((models[1] as Buffer).equals(models[0] as Buffer)).toBe(true);
});
