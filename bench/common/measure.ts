/** Timing for the benchmarks: the least of several repeats, because everything else on a machine only adds time. */
import { describeLibtorch } from "../../src/torch/index.ts";

/** @returns seconds of the fastest of `repeats` runs of `body` */
export function least(body: () => void, repeats = 5): number {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < repeats; i++) {
    const start = performance.now();
    body();
    best = Math.min(best, performance.now() - start);
  }
  return best / 1000;
}

/** One line that says what the figures below it were measured with. */
export function setting(): string {
  const { version, threads, blas, products } = describeLibtorch();
  const name = blas.find((line) => line.includes("OpenBLAS"))?.split("|")[1];
  const threading = ["sequential", "pthread", "OpenMP"][Number(/parallel=(\d)/.exec(name ?? "")?.[1])] ?? "";
  const core = /USE_OPENMP (\S+)|AFFINITY (\S+) MAX/.exec(name ?? "");
  return `libtorch ${version}, ${name ? `${/OpenBLAS \S+/.exec(name)?.[0]} ${threading} ${core?.[1] ?? core?.[2] ?? ""}` : "another BLAS"}, own operators multiply by ${products || "libtorch"}, ${threads} thread${threads === 1 ? "" : "s"}, Node ${process.versions.node}`;
}
