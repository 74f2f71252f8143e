import { train as runTraining } from "../train/index.ts";
import { type TrainOptionsInput, trainOptions } from "../train/options.ts";
import { command } from "./command.ts";
import { printResult, terminalReporter, trainSignal } from "./trainRun.ts";

/** `serac train`: icefall's zipformer/train.py, on the cuts of its recipe, on NeMo manifests, or on blocks of NeMo's. */
export const train = command({
  name: "train",
  summary: "Train a Zipformer on manifests, NeMo configs or icefall's cuts",
  description:
    "Flags are those of icefall's zipformer/train.py and asr_datamodule.py. Writes epoch-N.pt files, which hold all that decoding needs, to the experiment's folder.\n" +
    "Data: manifests (--train-manifest), a NeMo block or input_cfg (--train-ds, train_ds.KEY=VALUE), or the cuts of icefall's recipe (--manifest-dir).",
  examples: [
    "serac train --train-manifest train.jsonl --valid-manifest valid.jsonl --bpe-model bpe.model --exp-dir exp --max-duration 200",
    "serac train --manifest-dir data/fbank --full-libri 0 --max-duration 600",
    "serac train --train-ds nemo.yaml train_ds.batch_duration=300 --valid-manifest valid.jsonl --limit-train-batches 2000",
    "serac train --train-manifest train.jsonl --bpe-model bpe.model --exp-dir exp --start-epoch 11",
    "serac train --config exp/train.yaml --exp-dir exp2 --base-lr 0.03",
    "serac train --train-manifest train.jsonl --bpe-model bpe.model --use-ctc 1 --use-transducer 0 --base-lr 0.03",
  ],
  positional: { overrides: { help: "train_ds.KEY=VALUE, validation_ds.KEY=VALUE", optional: true, many: true } },
  options: trainOptions,
  async run({ overrides, ...options }, out, given) {
    // What was left to its default is left to it there too: beside a train_ds block flags have other meanings.
    const input: TrainOptionsInput = Object.fromEntries(Object.entries(options).filter(([name]) => given.has(name)));
    if (overrides && overrides.length > 0) input.overrides = overrides;
    const result = await runTraining(input, { signal: trainSignal(out), report: terminalReporter(out) });
    return printResult(out, result, options.validManifest?.[0]);
  },
});
