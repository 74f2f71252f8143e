/** What a thread that trains remembers between updates besides the parameters: streams of random numbers, and what modules remember. */
import type { AsrModel } from "../models/index.ts";
import { Generator } from "../torch/index.ts";
import { Random, type RandomState } from "../util/random.ts";

/** As it stands in a checkpoint. */
export interface ReplicaState {
  random: RandomState;
  /** The generator's bytes, in base64. */
  generator: string;
  modules: Record<string, number>;
}

/** What modules remember, by their paths. */
export function modulesState(model: AsrModel): Record<string, number> {
  const states: Record<string, number> = {};
  for (const [path, module] of model.namedModules()) {
    const state = module.trainingState();
    if (state !== undefined) states[path] = state;
  }
  return states;
}

/** Puts back what `modulesState` gave. */
export function restoreModules(model: AsrModel, states: Readonly<Record<string, number>>): void {
  for (const [path, module] of model.namedModules()) module.restoreTrainingState(states[path]);
}

/** The streams of replica `rank`, from 1: another for each. */
export function replicaStreams(seed: number, rank: number): { random: Random; generator: Generator } {
  return { random: new Random(seed + 1_000_003 * rank), generator: new Generator(seed + 1_000_003 * rank) };
}
