import { GeneratorHandle, TensorHandle } from "./handle.ts";

/** True for a plain object of named arguments. */
export const isOptions = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof TensorHandle) && !(value instanceof GeneratorHandle);
