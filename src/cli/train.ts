import { train as runTraining } from "../train/index.ts";
import { trainOptions } from "../train/options.ts";
import { command } from "./command.ts";

/** `serac train`: icefall's zipformer/train.py on NeMo manifests. */
export const train = command({
  name: "train",
  summary: "Train a Zipformer on NeMo manifests",
  description: "Flags are those of icefall's zipformer/train.py. Writes epoch-N.pt files, which hold all that decoding needs, to the experiment's folder.",
  examples: [
    "serac train --train-manifest train.jsonl --valid-manifest valid.jsonl --bpe-model bpe.model --exp-dir exp --max-duration 200",
    "serac train --train-manifest train.jsonl --bpe-model bpe.model --exp-dir exp --start-epoch 11",
    "serac train --train-manifest train.jsonl --bpe-model bpe.model --use-ctc 1 --use-transducer 0 --base-lr 0.03",
  ],
  options: trainOptions,
  async run(options, out) {
    let progress: ReturnType<typeof out.progress> | undefined;
    const result = await runTraining(options, {
      signal: out.signal,
      report: {
        say: (line) => out.say(line),
        progress(done, total, note) {
          if (done === 1 || !progress) progress = out.progress(total, "batches");
          progress.update(done, note);
          if (done === total) progress.finish();
        },
      },
    });
    if (out.json) out.print(JSON.stringify(result));
    else out.print(result.checkpoint);
    if (result.interrupted) return 130;
    const test = options.validManifest?.[0] ?? "test.jsonl";
    if (result.checkpoint.includes("epoch-"))
      out.next(
        `serac decode --exp-dir ${options.expDir} --epoch ${result.epochs} --avg ${Math.max(1, Math.min(5, result.epochs - 1))} --manifest ${test}`,
        `serac transcribe --checkpoint ${result.checkpoint} a.wav`,
      );
    return 0;
  },
});
