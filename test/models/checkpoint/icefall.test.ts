/** Checkpoints that icefall wrote: read, used, gone on from, written again. */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  convertToPt,
  convertToSafetensors,
  memoryTensor,
  openPt,
  openTensorFile,
  type PtDict,
  PtTensor,
  type PtValue,
  ptDict,
  stateDict,
  writePt,
} from "../../../src/formats/index.ts";
import { AsrModel, asrModelOptions, averagedCheckpoint, type Checkpoint, disposeCheckpoint, loadCheckpoint, saveCheckpoint } from "../../../src/models/index.ts";
import { Generator, liveTensors, noGrad, scope, type Tensor } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";

const zip = new URL("../../golden/icefall/icefall_checkpoint-6.pt", import.meta.url).pathname;
const legacy = new URL("../../golden/icefall/icefall_checkpoint-3-legacy.pt", import.meta.url).pathname;
const { tensors: expected } = golden("icefall/icefall_checkpoint");

let folder: string;
let bpeModel: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-icefall-"));
  bpeModel = join(folder, "bpe.model");
  writeFileSync(bpeModel, "any bytes: loading does not look into them");
  symlinkSync(legacy, join(folder, "checkpoint-3.pt"));
  symlinkSync(zip, join(folder, "checkpoint-6.pt"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What the encoder gives for the reference's input, and the CTC output of that. */
function outputsOf(checkpoint: Checkpoint): { encoderOut: Tensor; lengths: number[]; ctc: Tensor } {
  const model = scope(() => new AsrModel({ ...asrModelOptions(checkpoint.config), generator: new Generator(0) }));
  model.loadStateDict(checkpoint.model);
  model.eval();
  const out = noGrad(() => {
    const { encoderOut, encoderOutLens } = model.forwardEncoder(expected.x as Tensor, (expected.x_lens as Tensor).toArray());
    return { encoderOut, lengths: encoderOutLens, ctc: model.ctcLogProbs(encoderOut) };
  });
  model.dispose();
  return out;
}
const encoderOut = (checkpoint: Checkpoint): Tensor => outputsOf(checkpoint).encoderOut;

/** A copy of the file with another dict. */
function rewritten(name: string, change: (value: PtDict) => PtDict): string {
  const file = openPt(zip);
  const path = join(folder, name);
  writePt(path, change(file.value as PtDict));
  file.close();
  return path;
}

const open = (): { bpeModel: string } => ({ bpeModel });

describe("a checkpoint of icefall's", () => {
  test("tells its model, whose outputs are icefall's", () => {
    const before = liveTensors();
    scope(() => {
      const checkpoint = loadCheckpoint(zip, open());
      expect(checkpoint.config).toMatchObject({ encoderDim: [24, 32, 40], numEncoderLayers: [1, 2, 1], vocabSize: 50, sampleRate: 16000, useCtc: true, numHeads: [4] });
      expect(checkpoint.state).toMatchObject({ batchIdxTrain: 6, epoch: 1, bestValidLoss: 1.25, scheduler: { epoch: 0, batch: 6 } });
      const out = outputsOf(checkpoint);
      expect(out.encoderOut).toBeAllClose(expected.encoder_out);
      expect(out.lengths).toEqual((expected.encoder_out_lens as Tensor).toArray());
      expect(out.ctc).toBeAllClose(expected.ctc_log_probs);
    });
    expect(liveTensors()).toBe(before);
  });

  test("that goes to safetensors and back has its parameters, average and optimiser under the same keys; so has one that serac wrote as safetensors", () => {
    const convert = (from: string, name: string): string => {
      const file = openTensorFile(from);
      (name.endsWith(".pt") ? convertToPt : convertToSafetensors)(file, join(folder, name));
      file.close();
      return join(folder, name);
    };
    /** Every tensor by the keys that lead to it, as icefall's loader would ask for them. */
    const tensorsOf = (path: string): Map<string, string> => {
      const file = openPt(path);
      const found = new Map<string, string>();
      const visit = (value: PtValue, keys: readonly string[]): void => {
        if (value instanceof PtTensor) found.set(JSON.stringify(keys), createHash("sha256").update(value.bytes()).digest("hex"));
        else if (value instanceof Map) for (const [key, item] of value) visit(item, [...keys, `${typeof key}:${key}`]);
      };
      visit(file.value, []);
      file.close();
      return found;
    };
    const whole = tensorsOf(zip);
    expect(whole.has('["string:model","string:encoder_embed.conv.0.weight"]')).toBe(true);
    const back = convert(convert(zip, "there.safetensors"), "back.pt");
    expect(new Map([...tensorsOf(back)].sort())).toEqual(new Map([...whole].sort()));
    scope(() => {
      const checkpoint = loadCheckpoint(zip, open());
      saveCheckpoint(join(folder, "own.safetensors"), checkpoint);
      const own = tensorsOf(convert(join(folder, "own.safetensors"), "own.pt"));
      for (const part of ["model", "model_avg"]) for (const [keys, digest] of whole) if (JSON.parse(keys)[0] === `string:${part}`) expect(own.get(keys), keys).toBe(digest);
      const again = loadCheckpoint(back, { ...open(), given: checkpoint.config });
      expect(encoderOut(again)).toBeAllClose(expected.encoder_out);
    });
  });

  test("is averaged over updates 3 to 6 as icefall does, from both serialisations", () => {
    const before = liveTensors();
    scope(() => {
      // The average period of both files is not in their parameters: they were made with one update.
      const [start, end] = [3, 6].map((batch) => loadCheckpoint(join(folder, `checkpoint-${batch}.pt`), open())) as [Checkpoint, Checkpoint];
      for (const [batch, checkpoint] of [
        [3, start],
        [6, end],
      ] as const)
        saveCheckpoint(join(folder, "period", `checkpoint-${batch}.pt`), { ...checkpoint, state: { ...(checkpoint.state as NonNullable<Checkpoint["state"]>), averagePeriod: 1 } });
      const averaged = averagedCheckpoint(join(folder, "period"), { epoch: 0, iter: 6, avg: 1, useAveragedModel: true });
      expect(encoderOut(averaged)).toBeAllClose(expected["averaged_3_6.encoder_out"]);
      disposeCheckpoint(averaged);
    });
    expect(liveTensors()).toBe(before);
  });

  test("keeps parameters, averages, moments and counts when it is written again", () => {
    scope(() => {
      const first = loadCheckpoint(zip, open());
      const path = join(folder, "again.pt");
      saveCheckpoint(path, first);
      const second = loadCheckpoint(path);
      for (const part of ["model", "modelAvg", "optimizer"] as const) {
        const [a, b] = [first[part], second[part]] as [Map<string, Tensor>, Map<string, Tensor>];
        expect([...b.keys()].sort()).toEqual([...a.keys()].sort());
        for (const [key, tensor] of a) expect(b.get(key)?.equal(tensor), key).toBe(true);
      }
      expect(second.config).toEqual(first.config);
      expect(second.state?.optimizer).toEqual(first.state?.optimizer);
      const { optimizer: _, options: __, random: ___, ...rest } = first.state as NonNullable<Checkpoint["state"]>;
      expect(second.state).toMatchObject(JSON.parse(JSON.stringify(rest)));
      const file = openPt(path);
      const names = [...(file.value as PtDict).keys()];
      file.close();
      for (const name of ["model", "optimizer", "scheduler", "grad_scaler", "sampler", "model_avg", "batch_idx_train", "best_valid_loss", "cur_epoch", "vocab_size", "encoder_dim"])
        expect(names).toContain(name);
    });
  });
});

describe("a file of parameters alone", () => {
  const bare = (name: string, change: (key: string) => string = (key) => key): string =>
    rewritten(name, (value) => ptDict({ model: stateDict(Array.from(value.get("model") as PtDict, ([key, tensor]) => [change(key as string), tensor as PtTensor] as const)) }));

  test("tells its model by shapes; flags say what they do not, and DDP's prefix is none of the name", () => {
    scope(() => {
      const path = bare("pretrained.pt", (key) => `module.${key}`);
      // Four heads of 16 and 12 are not icefall's defaults: shapes cannot tell them.
      expect(() => loadCheckpoint(path, open())).toThrow(/give --num-heads/);
      const checkpoint = loadCheckpoint(path, { ...open(), given: { numHeads: [4], queryHeadDim: [16], posHeadDim: [4], valueHeadDim: [12] } });
      expect(checkpoint.state).toBeUndefined();
      expect(checkpoint.config).toMatchObject({ feedforwardDim: [48, 64, 64], cnnModuleKernel: [15, 15, 7], decoderDim: 32, joinerDim: 36, contextSize: 2, featureDim: 80 });
      expect(encoderOut(checkpoint)).toBeAllClose(expected.encoder_out);
    });
  });

  test("refuses flags that contradict it, and heads that do not fit", () => {
    const path = bare("contradicted.pt");
    const heads = { numHeads: [4], queryHeadDim: [16], posHeadDim: [4], valueHeadDim: [12] };
    expect(() => loadCheckpoint(path, { ...open(), given: { ...heads, encoderDim: [24, 32, 48], causal: true } })).toThrow(
      expect.objectContaining({ code: "CHECKPOINT_MISMATCH", message: expect.stringMatching(/--encoder-dim \[24,32,48\].*\[24,32,40\].*--causal true/) }),
    );
    expect(() => loadCheckpoint(path, { ...open(), given: { ...heads, numHeads: [8] } })).toThrow(/8 heads of dimensions 16 \(query\)/);
  });

  test("takes chunk size and left context from flags, which say how it is used", () => {
    scope(() => {
      const { config } = loadCheckpoint(zip, { ...open(), given: { chunkSize: [16], leftContextFrames: [64] } });
      expect(config).toMatchObject({ chunkSize: [16], leftContextFrames: [64], encoderDim: [24, 32, 40] });
    });
  });

  test("needs a tokenizer", () => {
    expect(() => loadCheckpoint(zip)).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISSING", message: expect.stringContaining("--bpe-model") }));
  });
});

test.each<[string, (value: PtDict) => PtDict, RegExp]>([
  ["no parameters", (value) => ptDict([...value].filter(([key]) => key !== "model")), /no parameters under "model"/],
  ["another model", () => ptDict({ model: stateDict([["linear.weight", anyTensor()]]) }), /no Zipformer of icefall's/],
  [
    "a parameter that is text",
    (value) => new Map([...value].map(([key, item]) => [key, key === "model" ? ptDict({ "encoder_embed.conv.0.weight": "no" }) : item])),
    /which is no tensor/,
  ],
  ["flags of another model", (value) => new Map([...value].map(([key, item]) => [key, key === "encoder_dim" ? "24,32,48" : item])), /its parameters are of \[24,32,40\]/],
])("%s: an error that says so", (name, change, message) => {
  expect(() => loadCheckpoint(rewritten(`${name}.pt`, change), open())).toThrow(message);
});

function anyTensor(): PtTensor {
  return memoryTensor("float32", [1], new Uint8Array(4));
}
