import { type FinetuneOptionsInput, finetuneOptions, finetune as runFinetuning } from "../train/index.ts";
import { command } from "./command.ts";
import { printResult, terminalReporter, trainSignal } from "./trainRun.ts";

/** `serac finetune`: icefall's zipformer/finetune.py. */
export const finetune = command({
  name: "finetune",
  summary: "Train on from another model: same or other vocabulary, all of its modules or some",
  description:
    "Flags are those of icefall's zipformer/finetune.py and of serac train. The model's shape is the checkpoint's where no flag says otherwise. Where the vocabularies differ, layers with a row for every token are re-made; tokens that both have keep their rows.",
  examples: [
    "serac finetune --finetune-ckpt exp/epoch-30.pt --train-manifest new.jsonl --valid-manifest valid.jsonl --bpe-model bpe.model --exp-dir exp-new --num-epochs 10",
    "serac finetune --finetune-ckpt pretrained.pt --init-modules encoder_embed,encoder --train-manifest new.jsonl --bpe-model other.model --exp-dir exp-other",
  ],
  positional: { overrides: { help: "train_ds.KEY=VALUE, validation_ds.KEY=VALUE", optional: true, many: true } },
  options: finetuneOptions,
  async run({ overrides, ...options }, out, given) {
    const input: FinetuneOptionsInput = Object.fromEntries(Object.entries(options).filter(([name]) => given.has(name)));
    if (overrides && overrides.length > 0) input.overrides = overrides;
    const result = await runFinetuning(input, { signal: trainSignal(out), report: terminalReporter(out) });
    return printResult(out, result, options.validManifest?.[0]);
  },
});
