/** A checkpoint of more than 4 GiB, saved as training saves it, and loaded. Only with SERAC_LARGE=1: it takes minutes, 5 GB of disk and 9 GB of memory. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { AsrModel, asrModelOptions, CheckpointSaver, disposeCheckpoint, loadCheckpoint, modelOptions, openCheckpoint, startAverage } from "../../../src/models/index.ts";
import { fullLike, Generator, keep, liveTensors, scope, type Tensor } from "../../../src/torch/index.ts";
import { parseOptions } from "../../../src/util/options.ts";
import { toneShape } from "../../train/tones.ts";

const large = process.env["SERAC_LARGE"] === "1";
const digest = (tensor: Tensor): string => createHash("sha256").update(tensor.toTypedArray()).digest("hex");
const digests = (tensors: ReadonlyMap<string, Tensor> | undefined): Record<string, string> =>
  Object.fromEntries(Array.from(tensors ?? [], ([key, tensor]) => [key, digest(tensor)]));
const peak = (): string => `${(process.resourceUsage().maxRSS / 2 ** 20).toFixed(2)} GiB`;

describe.skipIf(!large)("a checkpoint beyond 4 GiB", () => {
  const folder = mkdtempSync(join(tmpdir(), "serac-large-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  test("comes back with every parameter, average and moment", { timeout: 1_200_000 }, async () => {
    const before = liveTensors();
    const path = join(folder, "epoch-1.pt");
    const config = { ...parseOptions(modelOptions, { ...toneShape, decoderDim: 8192, joinerDim: 8192 }), vocabSize: 5000, blankId: 0, sampleRate: 8000 };
    const model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(1) }));
    const average = startAverage(model);
    const optimizer = new Map(
      scope(() => model.parameters().flatMap((p, i) => ["delta", "exp_avg_sq"].map((name, k) => [`${i}.${name}`, keep(fullLike(p.detach(), i + k / 2))] as [string, Tensor]))),
    );
    const state = {
      epoch: 1,
      batchesDone: 0,
      batchIdxTrain: 7,
      bestValidLoss: undefined,
      bestValidEpoch: undefined,
      random: [1, 2, 3, 4] as const,
      modules: {},
      optimizer: { state: {}, param_groups: [] },
      scheduler: { epoch: 0, batch: 7 },
      averagePeriod: 200,
      options: {},
    };
    const saver = new CheckpointSaver();
    await saver.save(path, { config, state, model: model.stateDict(), modelAvg: average, optimizer, generator: new Uint8Array(16), tokenizer: new Uint8Array(3) });
    await saver.close();
    const said = [`${(statSync(path).size / 2 ** 30).toFixed(2)} GiB saved; peak of memory ${peak()}, of which the tensors and their copy are most`];
    const expected = [model.stateDict(), average, optimizer].map(digests);
    for (const tensor of [...average.values(), ...optimizer.values()]) tensor.dispose();
    model.dispose();
    expect(statSync(path).size).toBeGreaterThan(2 ** 32);
    const loaded = loadCheckpoint(path);
    said.push(`loaded; peak ${peak()}`);
    expect([loaded.model, loaded.modelAvg, loaded.optimizer].map(digests)).toEqual(expected);
    disposeCheckpoint(loaded);
    const opened = openCheckpoint(path);
    expect(opened.state).toMatchObject({ batchIdxTrain: 7 });
    opened.close();
    expect(liveTensors()).toBe(before);
    const program = `import torch; value = torch.load("${path}", map_location="cpu"); print(sum(t.numel() for t in value["model"].values()), value["batch_idx_train"])`;
    const python = spawnSync("/usr/bin/python3", ["-c", program], { encoding: "utf8" });
    if (python.stderr.includes("No module named 'torch'") || python.error) said.push("torch is not there to read it");
    else {
      expect(python.stderr).toBe("");
      expect(python.stdout.trim()).toMatch(/^\d{9} 7$/);
      said.push(`torch.load reads ${python.stdout.trim().split(" ")[0]} parameters`);
    }
    console.log(said.join("\n"));
  });
});
