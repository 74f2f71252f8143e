import { describeLibtorch, peakBytes, profile, setComposed, setThreads } from "../src/torch/index.ts";
import { makeBatch, Trainee } from "./step/model.ts";
if (process.env.COMP) setComposed(true);
const [size = "S", threads = "1", steps = "4", mode = "fp32"] = process.argv.slice(2);
setThreads(Number(threads));
const t = new Trainee(size as "S", makeBatch());
for (let i = 0; i < Number(steps); i++) {
  t.restart(5 + i);
  peakBytes({ reset: true });
  const c = process.cpuUsage();
  const s = performance.now();
  const r = t.step({ bf16: mode === "bf16" });
  const w = (performance.now() - s) / 1000;
  const u = process.cpuUsage(c);
  console.log(size, threads, `fwd ${r.forward.toFixed(3)} bwd ${r.backward.toFixed(3)} opt ${r.update.toFixed(3)} total ${w.toFixed(3)} user ${(u.user / 1e6 / w).toFixed(2)} sys ${(u.system / 1e6 / w).toFixed(2)} loss ${r.loss.toFixed(2)} peak ${(peakBytes() / 1e6).toFixed(0)} MB`);
}
if (process.env.PROF) {
  t.restart(8);
  const { operators } = profile(() => t.step({ bf16: mode === "bf16" }));
  let total = 0;
  for (const o of operators) total += o.seconds;
  console.log(`total ${total.toFixed(3)}`);
  for (const o of operators.slice(0, 45)) console.log(`${o.seconds.toFixed(3)} ${((100 * o.seconds) / total).toFixed(1)}% ${o.calls} ${o.name}`);
}
console.log(describeLibtorch().blas.join(" "));
