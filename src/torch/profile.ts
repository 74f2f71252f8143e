/** Which operators the time goes to. */
import { torchAddon } from "./native.ts";

/** What one operator took: "aten::addmm", "AddmmBackward0" (what autograd does besides calling operators), "serac::whiten". */
export interface OperatorTime {
  name: string;
  calls: number;
  /** Without the operators that it called. */
  seconds: number;
}

/**
 * Runs `body` and measures operators, of all threads, in forward and backward passes.
 * @returns what the body returned, and the operators, the costliest first
 */
export function profile<T>(body: () => T): { result: T; operators: OperatorTime[] } {
  torchAddon().profileStart();
  let result: T;
  let flat: (string | number)[] = [];
  try {
    result = body();
  } finally {
    flat = torchAddon().profileStop();
  }
  const operators: OperatorTime[] = [];
  for (let i = 0; i < flat.length; i += 3) operators.push({ name: flat[i] as string, calls: flat[i + 1] as number, seconds: flat[i + 2] as number });
  return { result, operators: operators.sort((a, b) => b.seconds - a.seconds) };
}
