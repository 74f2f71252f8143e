/** Which modules a forward pass spends its time in. */
import type { Module } from "../../src/nn/index.ts";

/** Wraps `forward` of every module while `body` runs; a module's time is its own, without that of the modules that it calls. Sums by class. */
export function moduleTimes(model: Module, body: () => void): [name: string, seconds: number][] {
  const times = new Map<string, number>();
  const running: number[] = []; // seconds of the children of the calls under way
  const wrapped: { module: Module & { forward?: unknown } }[] = [];
  for (const [, module] of model.namedModules()) {
    const target = module as Module & { forward?: (...args: unknown[]) => unknown };
    const { forward } = target;
    if (typeof forward !== "function") continue;
    wrapped.push({ module: target });
    target.forward = (...args) => {
      running.push(0);
      const start = performance.now();
      try {
        return forward.apply(target, args);
      } finally {
        const seconds = (performance.now() - start) / 1000;
        const children = running.pop() as number;
        times.set(module.constructor.name, (times.get(module.constructor.name) ?? 0) + seconds - children);
        if (running.length > 0) running[running.length - 1] = (running.at(-1) as number) + seconds;
      }
    };
  }
  try {
    body();
  } finally {
    for (const { module } of wrapped) delete module.forward; // the class's own again
  }
  return [...times].sort((a, b) => b[1] - a[1]).slice(0, 12);
}
