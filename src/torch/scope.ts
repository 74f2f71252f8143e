/**
 * Who frees tensors. Inside a scope the scope does, at its end; outside of any, the garbage collector does, late.
 * JavaScript's collector cannot see native memory, so long loops belong in scopes.
 */
import type { TensorHandle } from "./handle.ts";
import { torchAddon } from "./native.ts";
import { reserve } from "./tape.ts";

const registry = new FinalizationRegistry<number>((handle) => torchAddon().releaseOne(handle));

let current: TensorHandle[] | undefined;
let unscoped = 0;

/** Puts a new tensor under the care of the current scope, or of the collector. */
export function adopt(tensor: TensorHandle): void {
  if (current) current.push(tensor);
  else keepForCollector(tensor);
}

function keepForCollector(tensor: TensorHandle): void {
  registry.register(tensor, tensor.handle);
  if ((++unscoped & 63) === 0) torchAddon().reportMemory();
}

/** Frees these tensors now; those freed before are passed over. */
export function free(list: readonly TensorHandle[]): void {
  const tape = reserve(list.length);
  let count = 0;
  for (const tensor of list) {
    if (tensor.handle === 0) continue;
    tape[count++] = tensor.handle;
    tensor.handle = 0;
  }
  if (count > 0) torchAddon().release(count);
}

/** Tensors anywhere in arrays, plain objects, maps and sets of a value. */
function collect(value: unknown, isTensor: (v: object) => v is TensorHandle, into: Set<TensorHandle>, seen: Set<object>): void {
  if (typeof value !== "object" || value === null || seen.has(value) || ArrayBuffer.isView(value)) return;
  if (isTensor(value)) {
    into.add(value);
    return;
  }
  seen.add(value);
  if (value instanceof Map) for (const item of value.values()) collect(item, isTensor, into, seen);
  else if (Array.isArray(value) || value instanceof Set) for (const item of value) collect(item, isTensor, into, seen);
  else for (const item of Object.values(value)) collect(item, isTensor, into, seen);
}

type NotAPromise<T> = T extends PromiseLike<unknown> ? never : T;

const isHandle = (v: object): v is TensorHandle => "handle" in v && "forget" in v;

/**
 * Runs `body` and frees every tensor made inside, except those it returns: alone, or in arrays, maps and plain objects.
 * Those go to the scope around, if there is one. Scopes nest. An async body is a type error: its tensors would be freed while it waits.
 */
export function scope<T>(body: () => NotAPromise<T>): T {
  const outer = current;
  const mine: TensorHandle[] = [];
  current = mine;
  let result: T;
  try {
    result = body();
  } catch (error) {
    current = outer;
    free(mine.filter((tensor) => !tensor.kept));
    throw error;
  }
  current = outer;
  if (typeof (result as { then?: unknown } | null | undefined)?.then === "function") {
    free(mine);
    throw new Error("scope() cannot run an async function: its tensors would be freed while it waits");
  }
  const returned = new Set<TensorHandle>();
  collect(result, isHandle, returned, new Set());
  const dead: TensorHandle[] = [];
  for (const tensor of mine) {
    if (tensor.kept || tensor.handle === 0) continue;
    if (returned.has(tensor)) adopt(tensor);
    else dead.push(tensor);
  }
  free(dead);
  if (!outer) torchAddon().reportMemory();
  return result;
}

/** Takes a tensor out of the scopes around it: it lives until disposed of or collected. Parameters are kept so. */
export function keep<T extends TensorHandle>(tensor: T): T {
  if (tensor.kept || !current) return tensor;
  tensor.kept = true;
  keepForCollector(tensor);
  return tensor;
}
