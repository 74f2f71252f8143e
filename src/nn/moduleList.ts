import { Module } from "./module.ts";

/** Modules under numbered keys "0", "1", ...; entries that hold no parameters may be left out of the map to keep a checkpoint's numbers. */
export class ModuleList<M extends Module = Module> extends Module {
  readonly items: readonly M[];

  /** @param modules in order, or by their numbers */
  constructor(modules: readonly M[] | ReadonlyMap<number, M>) {
    super();
    for (const [index, module] of modules.entries()) this.child(String(index), module);
    this.items = [...modules.values()];
  }
}
