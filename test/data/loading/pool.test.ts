/** The threads of the loader, in a process of their own: whether it ends is what matters. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../../src/util/paths.ts";

test("a batch that is done while the threads are being ended does not end the process before them", () => {
  const code = `
    import { RenderPool } from ${JSON.stringify(join(packageRoot, "build", "js", "data", "loading", "pool.js"))};
    const pool = new RenderPool(1);
    const closing = pool.close();
    for (const worker of pool.workers) worker.emit("message", {}); // what it sends before it ends
    await closing;
    console.log("closed");`;
  const { status, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "closed\n" });
});
