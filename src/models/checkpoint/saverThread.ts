/** A thread that writes the checkpoints that it is sent, one after the other. */
import { parentPort } from "node:worker_threads";
import { internal } from "../../util/errors.ts";
import { type SentError, sendError } from "../../util/sentError.ts";
import type { RawCheckpoint } from "./raw.ts";
import { writeCheckpoint } from "./write.ts";

export interface SaverRequest {
  path: string;
  checkpoint: RawCheckpoint;
}

export interface SaverReply {
  /** Why the file could not be written. */
  error?: SentError;
}

const port = parentPort ?? internal("saverThread.ts is for worker threads");
port.on("message", ({ path, checkpoint }: SaverRequest) => {
  let reply: SaverReply = {};
  try {
    writeCheckpoint(path, checkpoint);
  } catch (error) {
    reply = { error: sendError(error) };
  }
  port.postMessage(reply);
});
