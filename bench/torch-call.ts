/**
 * The cost of a call: Tensor methods with all their checks, in scopes, beside Python's call on the same libtorch.
 * The ratio is to be 1.3 or less. Python: SERAC_BENCH_PYTHON, else /usr/bin/python3, with torch installed.
 */
import { spawnSync } from "node:child_process";
import { describeLibtorch, ones, scope, setThreads } from "../src/torch/index.ts";
import { least, setting } from "./common/measure.ts";

const calls = 1000;
const rounds = 30;
const names = ["add", "view", "matmul 16x16"] as const;

const python = `
import time, torch
torch.set_num_threads(1)
a = torch.ones(2, 3); b = torch.ones(2, 3); m = torch.ones(16, 16)
def least(body):
    best = 1e9
    for _ in range(${rounds}):
        start = time.perf_counter()
        body()
        best = min(best, time.perf_counter() - start)
    return best / ${calls} * 1e6
def add():
    for _ in range(${calls}): a.add(b)
def view():
    for _ in range(${calls}): a.view([3, 2])
def matmul():
    for _ in range(${calls}): m.matmul(m)
print(torch.__version__, least(add), least(view), least(matmul))
`;

function serac(): number[] {
  return scope(() => {
    const a = ones([2, 3]);
    const b = ones([2, 3]);
    const m = ones([16, 16]);
    const bodies: (() => void)[] = [() => void a.add(b), () => void a.view([3, 2]), () => void m.matmul(m)];
    return bodies.map((body) => {
      const inScope = () =>
        scope(() => {
          for (let i = 0; i < calls; i++) body();
        });
      return (least(inScope, rounds) / calls) * 1e6;
    });
  });
}

function inPython(): { version: string; times: number[] } | undefined {
  for (const executable of [process.env["SERAC_BENCH_PYTHON"], "/usr/bin/python3", "python3"]) {
    if (!executable) continue;
    const { status, stdout } = spawnSync(executable, ["-c", python], { encoding: "utf8" });
    if (status !== 0) continue;
    const [version = "", ...times] = stdout.trim().split(" ");
    return { version, times: times.map(Number) };
  }
  return undefined;
}

setThreads(1);
console.log(setting());
// alternating, so that both meet the same machine
const mine = names.map(() => Number.POSITIVE_INFINITY);
const theirs = names.map(() => Number.POSITIVE_INFINITY);
let version: string | undefined;
for (let round = 0; round < 3; round++) {
  for (const [i, time] of serac().entries()) mine[i] = Math.min(mine[i] as number, time);
  const measured = inPython();
  if (!measured) continue;
  version = measured.version;
  for (const [i, time] of measured.times.entries()) theirs[i] = Math.min(theirs[i] as number, time);
}
if (version !== undefined && version.split(".")[0] !== describeLibtorch().version.split(".")[0]) console.log(`note: Python has torch ${version}, another libtorch`);
for (const [i, name] of names.entries()) {
  const [a, b] = [mine[i] as number, theirs[i] as number];
  console.log(version === undefined ? `${name}: ${a.toFixed(2)} us` : `${name}: ${a.toFixed(2)} us, Python ${b.toFixed(2)} us, ratio ${(a / b).toFixed(2)} (at most 1.30)`);
}
if (version === undefined) console.log("Python's torch was not found: no ratios (SERAC_BENCH_PYTHON names the python to use)");
