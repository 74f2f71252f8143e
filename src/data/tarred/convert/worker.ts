/** A thread of a conversion: does the jobs that it is sent, one after the other. */
import { parentPort } from "node:worker_threads";
import { internal } from "../../../util/errors.ts";
import { sendError } from "../../../util/sentError.ts";
import { type Job, runJob } from "./jobs.ts";

const port = parentPort ?? internal("convert/worker.ts is for worker threads");
port.on("message", async (job: Job) => {
  try {
    port.postMessage({ result: await runJob(job, (entries) => port.postMessage({ entries })) });
  } catch (error) {
    port.postMessage({ error: sendError(error) });
  }
});
