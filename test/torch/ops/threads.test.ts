/** How work is shared between threads changes no product of bfloat16. */
import { afterAll, expect, test } from "vitest";
import { autocast, describeLibtorch, Generator, ops, randn, setThreads, type Tensor, threads } from "../../../src/torch/index.ts";
import { gradients } from "./helpers.ts";

const before = threads();
afterAll(() => setThreads(before));

/** What serac multiplies by itself; libtorch's products under autocast may depend on the threads. */
const own = /^(avx512bf16|amx)$/.test(describeLibtorch().isa);

test.each([
  [3, 5, 7],
  [33, 64, 31],
  [224, 96, 192], // one block of rows
  [500, 193, 256],
  [901, 64, 500],
])("of %i rows, %i channels and %i results", (rows, channels, results) => {
  const generator = new Generator(11);
  const x = randn([rows, channels], { generator });
  const weight = randn([results, channels], { generator });
  const g = randn([rows, results], { generator }).to({ dtype: "bfloat16" });
  const all = [1, 2, 3].map((count) => {
    setThreads(count);
    return autocast({}, () => gradients((a, w) => ops.linear(a as Tensor, w as Tensor), [x, weight], g));
  });
  const wide = (t: Tensor): Tensor => t.to({ dtype: "bfloat16" }).to({ dtype: "float64" });
  for (const { y, grads } of all) {
    const size = { rtol: 2e-2, atol: 2e-2 * Math.sqrt(Math.max(rows, channels, results)) };
    expect(y.to({ dtype: "float64" })).toBeAllClose(wide(x).matmul(wide(weight).t()), size);
    expect((grads[0] as Tensor).to({ dtype: "float64" })).toBeAllClose(wide(g).matmul(wide(weight)), size);
    expect((grads[1] as Tensor).to({ dtype: "float64" })).toBeAllClose(wide(g).t().matmul(wide(x)), size);
    if (!own) continue;
    expect(y).toBeAllClose(all[0]?.y as Tensor, { rtol: 0, atol: 0 });
    for (const i of [0, 1]) expect(grads[i]).toBeAllClose(all[0]?.grads[i] as Tensor, { rtol: 0, atol: 0 });
  }
});
