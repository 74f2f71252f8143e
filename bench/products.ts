/**
 * Products of float matrices, x (rows, in) times the transpose of a weight (out, in), with one thread and in turns: as serac's operators multiply them on
 * this CPU, without AMX (SERAC_ISA's next lower set: oneDNN or BLAS), and by libtorch's operator. Errors are the root mean squares beside a product in
 * double, in parts of the sums of the terms' absolute values.
 * usage: npm run bench -- products
 */
import { describeLibtorch, Generator, isas, noGrad, ops, randn, scope, setThreads, type Tensor } from "../src/torch/index.ts";
import { torchAddon } from "../src/torch/native.ts";
import { least, setting } from "./common/measure.ts";

const shapes = [
  [448, 128, 384],
  [448, 384, 128],
  [448, 512, 192],
  [448, 384, 1536],
  [448, 1536, 384],
  [2000, 192, 512],
  [4000, 2432, 192],
] as const;

function error(y: Tensor, x: Tensor, w: Tensor): number {
  const [a, b] = [x.to({ dtype: "float64" }), w.t().to({ dtype: "float64" })];
  return y.to({ dtype: "float64" }).sub(a.matmul(b)).div(a.abs().matmul(b.abs())).square().mean().sqrt().item();
}

setThreads(1);
console.log(setting());
const best = describeLibtorch().isa;
const lower = best === "amx" ? (isas().at(-2) as string) : best;
const ways: Record<string, (x: Tensor, w: Tensor) => Tensor> = {
  own: (x, w) => ops.linear(x, w),
  lower: (x, w) => ops.linear(x, w),
  libtorch: (x, w) => x.matmul(w.t()),
};
for (const [rows, inner, outer] of shapes)
  scope(() => {
    const generator = new Generator(1);
    const [x, w] = [randn([rows, inner], { generator }), randn([outer, inner], { generator })];
    const repeats = Math.max(1, Math.round(2e9 / (rows * inner * outer)));
    const seconds: Record<string, number> = {};
    const errors: Record<string, number> = {};
    for (let round = 0; round < 5; round++)
      for (const [name, multiply] of Object.entries(ways)) {
        torchAddon().setIsa(name === "lower" ? lower : best);
        const many = (): void =>
          noGrad(() => {
            for (let i = 0; i < repeats; i++) scope(() => void multiply(x, w));
          });
        seconds[name] = Math.min(seconds[name] ?? Number.POSITIVE_INFINITY, least(many, 1) / repeats);
        errors[name] ??= error(multiply(x, w), x, w);
      }
    const rate = (name: string): string => `${((2e-9 * rows * inner * outer) / (seconds[name] as number)).toFixed(0)} GFLOP/s (error ${(errors[name] as number).toExponential(1)})`;
    console.log(
      `${rows} x ${inner} x ${outer}: ${((seconds["lower"] as number) / (seconds["own"] as number)).toFixed(2)} times ${lower}; ${best} ${rate("own")}, ${lower} ${rate("lower")}, libtorch ${rate("libtorch")}`,
    );
  });
