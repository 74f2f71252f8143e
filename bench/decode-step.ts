/** The encoder in evaluation, as in decoding: Zipformer S and M on 8 utterances of 10 s, beside the same composed of libtorch's operators, in turns. */
import { autocast, noGrad, scope, setThreads } from "../src/torch/index.ts";
import { setting } from "./common/measure.ts";
import { mean, ratio, spread, takeTurns } from "./common/turns.ts";
import { makeBatch, makeModel } from "./step/model.ts";

const batch = makeBatch();
console.log(setting());
for (const size of ["S", "M"] as const) {
  const model = makeModel(size).eval();
  for (const threads of [1, 2]) {
    setThreads(threads);
    let float = 0;
    for (const precision of ["fp32", "bf16"] as const) {
      const turns = takeTurns(3, () => {
        noGrad(() => scope(() => void autocast({ enabled: precision === "bf16" }, () => model.forwardEncoder(batch.x, batch.xLens))));
        return undefined;
      });
      if (precision === "fp32") float = mean(turns.composed);
      const beside = precision === "fp32" ? ratio(turns) : float / mean(turns.own);
      console.log(
        `${size}, ${threads} thread${threads > 1 ? "s" : ""}, ${precision}: ${beside.toFixed(2)} times composed fp32; own ${spread(turns.own)}, composed ${precision} ${spread(turns.composed)}; ${(batch.seconds / mean(turns.own)).toFixed(0)} s of audio a second`,
      );
    }
  }
  model.dispose();
}
