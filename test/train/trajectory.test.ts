/** Twenty updates beside the reference: losses of all kinds, ScaledAdam and Eden on a whole model. */
import { expect, test } from "vitest";
import { asrLoss } from "../../src/losses/index.ts";
import { AsrModel } from "../../src/models/index.ts";
import { SwooshL, SwooshR } from "../../src/nn/index.ts";
import { Eden, ScaledAdam } from "../../src/optim/index.ts";
import { Generator, liveTensors, scope, type Tensor } from "../../src/torch/index.ts";
import { transducerScales } from "../../src/train/loss.ts";
import { golden } from "../golden.ts";
import { goldenOptions, NeverRandom, under, withoutDropping } from "../models/helpers.ts";

test("losses, rates and parameters of twenty updates are the reference's", () => {
  const before = liveTensors();
  scope(() => {
    const { tensors, metadata } = golden("trajectory");
    const model = scope(() => new AsrModel({ ...goldenOptions(metadata), generator: new Generator(1) }));
    model.loadStateDict(under(tensors, "param.0."));
    model.train({ random: new NeverRandom(1), generator: new Generator(1) });
    withoutDropping(model);
    // In training these round their derivative at random, which the reference was made without.
    for (const [, module] of model.namedModules()) if (module instanceof SwooshL || module instanceof SwooshR) module.eval();
    const optimizer = new ScaledAdam(model.namedParameters(), { lr: 0.045, clippingScale: 2 });
    const scheduler = new Eden(optimizer, { lrBatches: 7500, lrEpochs: 3.5, warmupBatches: 500, warmupStart: 0.1 });
    scheduler.stepEpoch(0);
    const losses = JSON.parse(metadata.losses as string) as number[][];
    const rates = JSON.parse(metadata.lrs as string) as number[];
    for (let b = 1; b <= 20; b++) {
      const part = (name: string): Tensor => tensors[`${name}.${b}`] as Tensor;
      const ids = part("y").toArray();
      let at = 0;
      const y = part("y_lens")
        .toArray()
        .map((length) => ids.slice(at, (at += length)));
      const parts = scope(() => {
        const { simple, pruned, ctc, attention } = asrLoss(model, { x: part("x"), xLens: part("x_lens").toArray(), y });
        const scales = transducerScales(b, { warmStep: 2000, simpleLossScale: 0.5 });
        const weighted = [simple?.mul(scales.simple), pruned?.mul(scales.pruned), ctc?.mul(0.2), attention?.mul(0.8)] as Tensor[];
        const loss = weighted.reduce((sum, one) => sum.add(one));
        loss.backward();
        return [loss, simple, pruned, ctc, attention].map((one) => (one as Tensor).item());
      });
      expect(parts, `losses of update ${b}`).toBeAllClose(losses[b - 1], { rtol: 2e-5, atol: 0 });
      scheduler.stepBatch(b);
      expect(scheduler.lr).toBeAllClose(rates[b - 1], { rtol: 1e-12, atol: 0 });
      optimizer.step();
      optimizer.zeroGrad();
    }
    const trained = under(tensors, "param.20.");
    expect(trained.size).toBe(model.stateDict().size);
    for (const [key, parameter] of model.namedParameters()) {
      // A shift of the keys leaves the softmax as it is: their gradient is 0, and ScaledAdam enlarges what rounding makes of it.
      const keys = /linear_k\.bias$|self_attn_weights\.in_proj\.bias$/.test(key);
      expect(parameter, key).toBeAllClose(trained.get(key), { rtol: keys ? 1e-2 : 1e-3, atol: keys ? 1e-2 : 1e-3 });
    }
    optimizer.dispose();
    model.dispose();
  });
  expect(liveTensors()).toBe(before);
});
