// The part of icefall.sh that is serac's: a small model, updated by gradients that follow a formula, saved and loaded.
//   icefall.mjs make OUT          thirteen updates, then the checkpoint
//   icefall.mjs go-on IN OUT N    loads a checkpoint and does N updates; OUT is a safetensors file of the parameters
import { writeFileSync } from "node:fs";
import { AsrModel, asrModelOptions, loadCheckpoint, modelOptions, saveCheckpoint, startAverage, updateAverage } from "../../build/js/models/index.js";
import { Eden, ScaledAdam } from "../../build/js/optim/index.js";
import { fromTypedArray, Generator, saveTensors, scope } from "../../build/js/torch/index.js";
import { flattenState, unflattenState } from "../../build/js/train/optimizerState.js";
import { parseOptions } from "../../build/js/util/options.js";

const [command, from, to, count] = process.argv.slice(2);
const shape = {
  numEncoderLayers: [1, 2],
  downsamplingFactor: [1, 2],
  encoderDim: [16, 24],
  feedforwardDim: [32, 48],
  encoderUnmaskedDim: [16, 16],
  cnnModuleKernel: [15, 7],
  numHeads: [2, 2],
  decoderDim: 16,
  joinerDim: 16,
  useCtc: true,
};

function trained(config) {
  const model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(1) }));
  const optimizer = new ScaledAdam(model.namedParameters(), { lr: 0.045, clippingScale: 2 });
  const scheduler = new Eden(optimizer, { lrBatches: 7500, lrEpochs: 3.5, warmupBatches: 500, warmupStart: 0.1 });
  return { model, optimizer, scheduler };
}

/** One update, whose gradients every program can compute alike. */
function update({ model, optimizer, scheduler }, b) {
  scope(() => {
    let index = 0;
    for (const [, parameter] of model.namedParameters()) {
      const phase = 0.37 * index++ + 1.7 * b;
      const values = Float32Array.from({ length: parameter.numel }, (_, i) => 0.02 * Math.sin(0.61 * i + phase) * (1 + 0.5 * Math.cos(0.9 * b)));
      parameter.grad = fromTypedArray(values, parameter.shape);
    }
    scheduler.stepBatch(b);
    optimizer.step();
    optimizer.zeroGrad();
  });
}

if (command === "make") {
  const config = { ...parseOptions(modelOptions, shape), vocabSize: 40, blankId: 0, sampleRate: 16000 };
  const run = trained(config);
  const average = startAverage(run.model);
  run.scheduler.stepEpoch(0);
  for (let b = 1; b <= 13; b++) {
    update(run, b);
    updateAverage(average, run.model, { batchIdxTrain: b, averagePeriod: 1 });
  }
  const { tensors, numbers } = flattenState(run.optimizer.stateDict());
  saveCheckpoint(from, {
    config,
    state: {
      epoch: 1,
      batchesDone: 13,
      batchIdxTrain: 13,
      bestValidLoss: 0.5,
      bestValidEpoch: 1,
      random: [1, 2, 3, 4],
      modules: {},
      optimizer: numbers,
      scheduler: run.scheduler.stateDict(),
      averagePeriod: 1,
      options: { baseLr: 0.045, expDir: "zipformer/exp", useBf16: false },
    },
    model: run.model.stateDict(),
    modelAvg: average,
    optimizer: tensors,
    generator: new Generator(1).state(),
    tokenizer: new Uint8Array([1, 2, 3]),
  });
} else {
  writeFileSync(`${to}.tokenizer`, new Uint8Array([1, 2, 3]));
  const checkpoint = loadCheckpoint(from, { bpeModel: `${to}.tokenizer` });
  const run = trained(checkpoint.config);
  const { state } = checkpoint;
  run.model.loadStateDict(checkpoint.model);
  run.optimizer.loadStateDict(unflattenState({ tensors: checkpoint.optimizer, numbers: state.optimizer }));
  run.scheduler.loadStateDict(state.scheduler);
  for (let k = 1; k <= Number(count); k++) update(run, state.batchIdxTrain + k);
  saveTensors(to, run.model.stateDict());
}
