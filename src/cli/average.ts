import { join } from "node:path";
import { averagedCheckpoint, disposeCheckpoint, saveCheckpoint } from "../models/index.ts";
import { boolean, path } from "../util/options.ts";
import { command } from "./command.ts";
import { checkpointOptions, chooseAverage, openOptions } from "./model.ts";

/** `serac average`: one file of averaged parameters. */
export const average = command({
  name: "average",
  summary: "Write the average of an experiment's checkpoints as one file",
  description:
    "As icefall's generate_averaged_model.py: {\"model\": ...} with averaged parameters, and with the tokenizer and options that decoding needs. With --use-averaged-model (the default) over every update between the ends, by the running averages; else over the checkpoints' own values.",
  examples: ["serac average --exp-dir exp --epoch 30 --avg 9", "serac average --exp-dir exp --iter 40000 --avg 4 --use-averaged-model 0 --out exp/pretrained.pt"],
  options: {
    ...checkpointOptions,
    useAveragedModel: boolean({ default: true, group: "Model", help: "average over all updates of the stretch, not over the checkpoints' own values" }),
    out: path({ help: "file to write, .pt or .safetensors; EXP-DIR/epoch-N-avg-K.pt or iter-N-avg-K.pt where not given" }),
  },
  async run(options, out) {
    const { average, name } = chooseAverage(options, options.useAveragedModel);
    const checkpoint = averagedCheckpoint(options.expDir, average, openOptions(options));
    const path = options.out ?? join(options.expDir, `${name}-avg-${options.avg}.pt`);
    saveCheckpoint(path, { ...checkpoint, state: undefined });
    const parameters = [...checkpoint.model.values()].reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
    disposeCheckpoint(checkpoint);
    if (out.json) out.print(JSON.stringify({ path, parameters, ...average }));
    else out.say(`wrote ${path}: ${parameters.toLocaleString("en")} parameters`);
    out.next(`serac decode --checkpoint ${path} --manifest test.jsonl`);
    return 0;
  },
});
