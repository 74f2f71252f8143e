/** Processes of their own, for what only several can show. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "vitest";

/** Runs an ES module given as text in a process of its own, which must end well. @returns the number that it prints */
export async function numberOf(script: string, args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, ...args]);
  let out = "";
  child.stdout.on("data", (chunk) => (out += chunk));
  child.stderr.on("data", (chunk) => (out += chunk));
  const [code] = await once(child, "exit");
  expect(code, out).toBe(0);
  return Number(out);
}
