/**
 * A training step of Zipformer S and M (transducer and CTC, 500 tokens, all regularisers as at batch count 5000) on 8 utterances of 10 s, beside the
 * same model composed of libtorch's operators as icefall composes it, in turns and with the same draws. The composed
 * model is always in float32: bf16 is set beside it.
 * usage: npm run bench -- train-step; SERAC_BENCH_STEP="S 1 fp32" runs one, SERAC_BENCH_ROUNDS sets the rounds (2).
 */
import { peakBytes, profile, setComposed, setThreads } from "../src/torch/index.ts";
import { setting } from "./common/measure.ts";
import { mean, ratio, spread, takeTurns } from "./common/turns.ts";
import { makeBatch, Trainee } from "./step/model.ts";
import { moduleTimes } from "./step/modules.ts";

const rounds = Number(process.env["SERAC_BENCH_ROUNDS"] ?? 2);
const wanted = process.env["SERAC_BENCH_STEP"]?.split(" ");

/** The share of operators that are nothing but products of matrices, and ours that are mostly that. */
const products = /^aten::(mm|addmm|bmm|addmv|mv)$|serac::\(anonymous namespace\)::(Linear|Attend|Bmm)|^serac::(linear|attend|bmm)$/;

function measure(size: "S" | "M", threads: number, precision: "fp32" | "bf16"): void {
  setThreads(threads);
  const batch = makeBatch();
  const trainee = new Trainee(size, batch);
  const parts = { own: { forward: 0, backward: 0, update: 0 }, composed: { forward: 0, backward: 0, update: 0 } };
  const peaks = { own: 0, composed: 0 };
  const cpu = { own: [0, 0], composed: [0, 0] };
  let way: "own" | "composed" = "own"; // takeTurns begins with the other
  const turns = takeTurns(rounds, (round) => {
    way = way === "own" ? "composed" : "own";
    trainee.restart(5 + round);
    peakBytes({ reset: true });
    const before = process.cpuUsage();
    const start = performance.now();
    const { forward, backward, update } = trainee.step({ bf16: precision === "bf16" && way === "own" });
    const wall = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(before);
    if (round < 0) return undefined;
    for (const [name, value] of Object.entries({ forward, backward, update })) parts[way][name as "forward"] += value / rounds;
    peaks[way] = Math.max(peaks[way], peakBytes());
    cpu[way][0] = (cpu[way][0] as number) + (user + system) / 1e6;
    cpu[way][1] = (cpu[way][1] as number) + wall;
    return wall;
  });
  const shown = (name: "own" | "composed"): string => {
    const { forward, backward, update } = parts[name];
    const [used, wall] = cpu[name] as [number, number];
    return `${name}: ${spread(turns[name])}: forward ${forward.toFixed(3)}, backward ${backward.toFixed(3)}, update ${update.toFixed(3)}; ${(batch.seconds / mean(turns[name])).toFixed(1)} s of audio a second; peak ${(peaks[name] / 2 ** 20).toFixed(0)} MiB of tensors; CPU over wall ${(used / wall).toFixed(2)}`;
  };
  console.log(
    `${size}, ${threads} thread${threads > 1 ? "s" : ""}, ${precision}: ${ratio(turns).toFixed(2)} times composed fp32, peak ${(peaks.own / peaks.composed).toFixed(2)} of it`,
  );
  console.log(`  ${shown("own")}\n  ${shown("composed")}`);
  for (const composed of precision === "fp32" ? [false, true] : [false]) {
    setComposed(composed);
    trainee.restart();
    const { operators } = profile(() => trainee.step({ bf16: precision === "bf16" }));
    setComposed(false);
    const total = operators.reduce((sum, { seconds }) => sum + seconds, 0);
    const inProducts = operators.filter(({ name }) => products.test(name)).reduce((sum, { seconds }) => sum + seconds, 0);
    const top = operators
      .slice(0, 8)
      .map(({ name, seconds }) => `${name.replace(/torch::autograd::CppNode<serac::(?:composition::)?\(anonymous namespace\)::(\w+)>/, "$1Backward")} ${seconds.toFixed(3)}`);
    console.log(`  ${composed ? "composed" : "own"}, by operator: products of matrices alone ${inProducts.toFixed(3)} of ${total.toFixed(3)} s; ${top.join(", ")}`);
  }
  if (precision === "fp32" && threads === 1) {
    trainee.restart();
    console.log(
      `  forward by module: ${moduleTimes(trainee.model, () => trainee.step())
        .map(([name, seconds]) => `${name} ${seconds.toFixed(3)}`)
        .join(", ")}`,
    ); // prettier-ignore
  }
  trainee.dispose();
}

console.log(setting());
for (const size of ["S", "M"] as const)
  for (const threads of [1, 2])
    for (const precision of ["fp32", "bf16"] as const) if (!wanted || wanted.join() === [size, threads, precision].join()) measure(size, threads, precision);
