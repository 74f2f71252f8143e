/** A thread of a loader: renders the batches that it is sent, one after the other, and always tells which utterance it works on. */
import { parentPort, workerData } from "node:worker_threads";
import { internal } from "../../util/errors.ts";
import { type Job, renderJob } from "./job.ts";

const port = parentPort ?? internal("loading/worker.ts is for worker threads");
const { row } = workerData as { row: Int32Array };

port.on("message", async (job: Job) => {
  const result = await renderJob(job, 1, (number) => Atomics.store(row, 0, number));
  port.postMessage(result, [result.inputs.buffer]);
});
