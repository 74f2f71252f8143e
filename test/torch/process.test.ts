/** What concerns the process as a whole runs in processes of its own. */
import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { nativeFolder, packageRoot } from "../../src/util/paths.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-"));
afterAll(() => rmSync(folder, { recursive: true }));

const torchPath = join(nativeFolder, "serac_torch.node");
const mediaPath = join(nativeFolder, "serac_media.node");
const library = join(packageRoot, "build", "js");

/** Runs a module in a process of its own. */
function child(script: string): { status: number | null; signal: string | null; stdout: string; stderr: string } {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8", cwd: packageRoot });
  return { status, signal, stdout, stderr };
}

/** Draws an SentencePiece model and a sum, with the two addons loaded in the order given. */
const both = (order: string[]): string => `
  import { createRequire } from "node:module";
  const require = createRequire(${JSON.stringify(join(packageRoot, "package.json"))});
  for (const path of ${JSON.stringify(order)}) require(path);
  const { zeros } = await import(${JSON.stringify(join(library, "torch/index.js"))});
  const sum = zeros([3]).add(1).sum().item();
  const lines = Array.from({ length: 300 }, (_, i) => ["one two", "three four five", "six seven", "eight nine ten"][i % 4]).join("\\n");
  const media = require(${JSON.stringify(mediaPath)});
  const model = await media.trainModel(new TextEncoder().encode(lines), { vocab_size: "30", model_type: "unigram", hard_vocab_limit: "false" });
  const ids = media.encodeIds(media.loadModel(model), "one two");
  console.log(sum, model.length > 100, ids.length > 0);
`;

/** Products as a gradient of weights needs them, for `seconds`; oneDNN's use the stack pointer for something else meanwhile. */
const multiplying = (seconds: number): string => `
  const { ops, randn, scope, setThreads } = await import(${JSON.stringify(join(library, "torch/index.js"))});
  setThreads(2);
  let signals = 0;
  process.on("SIGWINCH", () => signals++);
  const [x, w] = [randn([262, 48]), randn([64, 48]).requiresGrad_(true)];
  process.stdout.write("ready\\n");
  for (const end = Date.now() + ${seconds * 1000}; Date.now() < end; await new Promise(setImmediate)) {
    w.grad = null;
    for (let i = 0; i < 50; i++) scope(() => ops.linear(x, w).sum().backward());
  }
  console.log(signals > 0 ? "signals came" : "no signal came");
`;

describe("signals", () => {
  test("that come while matrices are multiplied do no harm, and reach their handlers", async () => {
    const running = spawn(process.execPath, ["--input-type=module", "-e", multiplying(3)], { cwd: packageRoot, stdio: ["ignore", "pipe", "inherit"] });
    let stdout = "";
    let hail: NodeJS.Timeout | undefined;
    running.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      hail ??= setInterval(() => {
        for (let i = 0; i < 4; i++) running.kill("SIGWINCH");
      }, 1);
    });
    const end = await new Promise((resolve) => running.once("close", (status, signal) => resolve({ status, signal })));
    clearInterval(hail);
    expect({ end, stdout }).toEqual({ end: { status: 0, signal: null }, stdout: "ready\nsignals came\n" });
  });

  test("a second one to stop ends a process that is busy with operators; two at once count as one, which the handlers hear", async () => {
    const busy = `
      const { endAtSecondSignal, ones, scope } = await import(${JSON.stringify(join(library, "torch/index.js"))});
      let heard = 0;
      for (const name of ["SIGINT", "SIGTERM"]) process.on(name, () => heard++);
      endAtSecondSignal();
      process.stdout.write("ready\\n");
      while (!heard) await new Promise(setImmediate);
      console.log("heard", heard);
      for (const end = Date.now() + 60_000; Date.now() < end; ) scope(() => void ones([100, 100]).matmul(ones([100, 100])));
      console.log("not ended");`;
    const running = spawn(process.execPath, ["--input-type=module", "-e", busy], { cwd: packageRoot, stdio: ["ignore", "pipe", "inherit"] });
    let stdout = "";
    let hail: NodeJS.Timeout | undefined;
    running.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      if (stdout === "ready\n") for (const name of ["SIGINT", "SIGTERM"] as const) running.kill(name);
      else hail ??= setInterval(() => running.kill("SIGTERM"), 50);
    });
    const end = await new Promise((resolve) => running.once("close", (status, signal) => resolve({ status, signal })));
    clearInterval(hail);
    expect({ end, stdout }).toEqual({ end: { status: null, signal: "SIGTERM" }, stdout: "ready\nheard 1\n" });
  });

  test("end a process that does not ask for them, and are not hidden from processes that it starts", () => {
    const { status, signal, stdout } = child(`
      import { execFileSync } from "node:child_process";
      const { zeros } = await import(${JSON.stringify(join(library, "torch/index.js"))});
      zeros([1]);
      process.stdout.write(execFileSync("grep", ["SigBlk", "/proc/self/status"]));
      setTimeout(() => {}, 20_000);
      process.kill(process.pid, "SIGTERM");
    `);
    expect({ status, signal }).toEqual({ status: null, signal: "SIGTERM" });
    expect(stdout).toMatch(/^SigBlk:\s*0+\n$/);
  });
});

describe("one process", () => {
  test("a second copy of the addon is an error with a code, and the first goes on", () => {
    const copy = join(folder, "copy.node");
    copyFileSync(torchPath, copy);
    const { status, signal, stdout, stderr } = child(`
      import { createRequire } from "node:module";
      const require = createRequire(${JSON.stringify(join(packageRoot, "package.json"))});
      const { zeros } = await import(${JSON.stringify(join(library, "torch/index.js"))});
      zeros([1]);
      try { require(${JSON.stringify(copy)}); console.log("loaded"); } catch (error) { console.log(error.code, error.message); }
      console.log(zeros([2]).add(1).sum().item());
    `);
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: "" });
    expect(stdout).toMatch(/^NATIVE_TWICE .*\n2\n$/);
  });

  test.runIf(existsSync(mediaPath))("both addons load in either order, with their own protobuf each", () => {
    for (const order of [
      [torchPath, mediaPath],
      [mediaPath, torchPath],
    ]) {
      const { status, signal, stdout, stderr } = child(both(order));
      expect({
        status,
        signal,
        stdout,
        stderr: stderr
          .replace(/^.*LOG\\(INFO\\).*$/gm, "")
          .trim()
          .slice(-300),
      }).toMatchObject({ status: 0, signal: null, stdout: "3 true true\n" });
    }
  });

  test("worker threads compute, end on their own or by terminate, and the process exits clean", () => {
    const worker = `
      const { parentPort } = require("node:worker_threads");
      import(${JSON.stringify(join(library, "torch/index.js"))}).then(({ scope, ones, liveTensors, tensor, keep }) => {
        const kept = keep(tensor([1, 2], { requiresGrad: true }));
        const sum = scope(() => { const x = ones([100, 100]); const y = x.matmul(x).sum(); kept.mul(2).sum().backward(); return y.item(); });
        parentPort.postMessage([sum, liveTensors() > 0]);
        if (process.env.FOREVER) for (;;) scope(() => void ones([10]).add(1));
      });`;
    const { status, signal, stdout, stderr } = child(`
      import { Worker } from "node:worker_threads";
      const { zeros, liveTensors } = await import(${JSON.stringify(join(library, "torch/index.js"))});
      const mine = zeros([4]);
      const before = liveTensors();
      const run = (env) => new Promise((resolve, reject) => {
        const worker = new Worker(${JSON.stringify(worker)}, { eval: true, execArgv: [], env: { ...process.env, ...env } });
        let message;
        worker.on("message", (m) => { message = m; if (env.FOREVER) worker.terminate(); });
        worker.on("error", reject);
        worker.on("exit", () => resolve(message));
      });
      console.log(JSON.stringify(await Promise.all([run({}), run({}), run({ FOREVER: "1" })])));
      console.log(liveTensors() === before, mine.add(1).sum().item());
    `);
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: "" });
    expect(stdout).toBe(
      `${JSON.stringify([
        [1000000, true],
        [1000000, true],
        [1000000, true],
      ])}\ntrue 4\n`,
    );
  });

  test("Ctrl-C ends a loop that yields to the event loop", () => {
    const { status, stdout } = child(`
      const { scope, ones } = await import(${JSON.stringify(join(library, "torch/index.js"))});
      let stop = false;
      process.on("SIGINT", () => (stop = true));
      setImmediate(() => process.kill(process.pid, "SIGINT"));
      let steps = 0;
      while (!stop && steps < 100000) { scope(() => void ones([10]).add(1)); steps++; await new Promise((resolve) => setImmediate(resolve)); }
      console.log(stop);
    `);
    expect({ status, stdout }).toEqual({ status: 0, stdout: "true\n" });
  });
});
