/** A causal Zipformer M by chunks of 640 ms: how long a step over 1 and 16 streams takes, beside the same composed of libtorch's operators, in turns. */
import { AsrModel } from "../src/models/index.ts";
import { Generator, randn, scope, setThreads } from "../src/torch/index.ts";
import { setting } from "./common/measure.ts";
import { mean, ratio, spread, takeTurns } from "./common/turns.ts";
import { sizes } from "./step/model.ts";

const model = new AsrModel({ ...sizes.M, causal: true, generator: new Generator(7) }).eval();
const encoder = model.streaming({ chunkSize: 32, leftContextFrames: 256 });
const chunkSeconds = encoder.shift / 100;
setThreads(1);
console.log(setting());
for (const streams of [1, 16]) {
  const features = randn([streams, encoder.chunkFrames, 80], { generator: new Generator(1) });
  const states = encoder.initStates(streams);
  const turns = takeTurns(7, () => scope(() => void encoder.step(features, states)));
  for (const state of [features, ...states]) state.dispose();
  console.log(
    `M, 1 thread, ${streams} stream${streams > 1 ? "s" : ""}: ${ratio(turns).toFixed(2)} times composed; own ${spread(turns.own)}, composed ${spread(turns.composed)} a chunk of ${chunkSeconds} s; ${((streams * chunkSeconds) / mean(turns.own)).toFixed(0)} streams in real time`,
  );
}
model.dispose();
