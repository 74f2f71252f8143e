/** Threads that train one model: each takes a part of every batch, and their gradients are added in order. */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { AsrModel, ModelConfig } from "../models/index.ts";
import { foreachAdd_, noGrad, scope, shareTensors, type Tensor, takeTensors } from "../torch/index.ts";
import { TrainError } from "../util/errors.ts";
import { packageRoot } from "../util/paths.ts";
import { receiveError } from "../util/sentError.ts";
import type { LossInputs } from "./loss.ts";
import type { LossSums } from "./metrics.ts";
import type { TrainOptions } from "./options.ts";
import type { ReplicaReply, ReplicaRequest, ReplicaStart } from "./replica.ts";
import type { ReplicaState } from "./replicaState.ts";

/** Compiled code: threads cannot run TypeScript on every Node that serac supports. */
const workerFile = join(packageRoot, "build", "js", "train", "replica.js");

/** A batch's rows, and their tokens. */
export interface Part {
  inputs: LossInputs;
  y: number[][];
}

/**
 * Deals the rows of a batch out to `parts`, one after another, so that each gets long and short ones. Fewer rows than parts make fewer parts.
 * @param batch rows of features, longest first
 */
export function splitBatch({ inputs, frames, bins, inputLens }: LossInputs, y: readonly number[][], parts: number): Part[] {
  const count = Math.min(parts, inputLens.length);
  if (count === 1) return [{ inputs: { inputs, frames, bins, inputLens }, y: [...y] }];
  return Array.from({ length: count }, (_, part) => {
    const rows = inputLens.flatMap((_, row) => (row % count === part ? [row] : []));
    const longest = Math.max(...rows.map((row) => inputLens[row] as number));
    const data = new Float32Array(rows.length * longest * bins);
    rows.forEach((row, i) => data.set(inputs.subarray(row * frames * bins, (row * frames + longest) * bins), i * longest * bins));
    return { inputs: { inputs: data, frames: longest, bins, inputLens: rows.map((row) => inputLens[row] as number) }, y: rows.map((row) => y[row] as number[]) };
  });
}

/** The replicas beside this thread's own model. */
export class Replicas {
  private readonly workers: Worker[];
  private readonly parameters: readonly Tensor[];

  /**
   * @param count threads besides this one
   * @param model whose parameters they share; they must keep their memory from now on
   * @param states of a checkpoint, to go on from
   */
  constructor(
    count: number,
    { model, config, options, threads, states }: { model: AsrModel; config: ModelConfig; options: TrainOptions; threads: number; states?: readonly ReplicaState[] },
  ) {
    this.parameters = model.parameters();
    this.workers = Array.from({ length: count }, (_, i) => {
      const parameters = noGrad(() => scope(() => shareTensors(this.parameters.map((p) => p.detach()))));
      return new Worker(workerFile, { workerData: { rank: i + 1, threads, config, options, parameters, state: states?.[i] } satisfies ReplicaStart });
    });
  }

  /** Starts the parts, one a replica, and @returns their losses once all are done; their gradients are added to the model's by then. */
  async run(parts: readonly Part[], step: { b: number; batchCount: number; lossScale: number }): Promise<() => LossSums[]> {
    const replies = await Promise.all(parts.map(({ inputs, y }, i) => this.ask(i, { kind: "step", part: inputs, y, ...step }, [inputs.inputs.buffer as ArrayBuffer])));
    return () => replies.map((reply) => this.add(reply as ReplicaReply & { kind: "step" }));
  }

  private add({ sums, gradients }: ReplicaReply & { kind: "step" }): LossSums {
    noGrad(() =>
      scope(() => {
        const pairs = takeTensors(gradients).flatMap((gradient, i) => (gradient ? [{ parameter: this.parameters[i] as Tensor, gradient }] : []));
        const both = pairs.flatMap(({ parameter, gradient }) => {
          const own = parameter.grad;
          if (!own) parameter.grad = gradient;
          return own ? [{ own, gradient }] : [];
        });
        if (both.length > 0)
          foreachAdd_(
            both.map(({ own }) => own),
            both.map(({ gradient }) => gradient),
          );
      }),
    );
    return sums;
  }

  /** What each replica remembers, for a checkpoint. */
  async states(): Promise<ReplicaState[]> {
    const replies = await Promise.all(this.workers.map((_, i) => this.ask(i, { kind: "state" })));
    return replies.map((reply) => (reply as ReplicaReply & { kind: "state" }).state);
  }

  /** Puts back what `states` gave. */
  async restore(states: readonly ReplicaState[]): Promise<void> {
    await Promise.all(states.map((state, i) => this.ask(i, { kind: "restore", state })));
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await Promise.all(
      this.workers.map(
        (worker) =>
          new Promise<void>((resolve) => {
            worker.once("exit", () => resolve());
            worker.postMessage({ kind: "close" } satisfies ReplicaRequest);
          }),
      ),
    );
  }

  private ask(index: number, request: ReplicaRequest, transfer: ArrayBuffer[] = []): Promise<ReplicaReply> {
    const worker = this.workers[index] as Worker;
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown): void => {
        settle();
        const message = cause instanceof Error ? cause.message : String(cause);
        reject(new TrainError("TRAIN_REPLICA_FAILED", { at: `replica ${index + 1}`, message, fix: "train with --replicas 1 to see the cause in full", cause }));
      };
      const onMessage = (reply: ReplicaReply): void => {
        if (reply.kind === "failed") fail(receiveError(reply.error));
        else {
          settle();
          resolve(reply);
        }
      };
      const onError = (error: Error): void => fail(error);
      const onExit = (code: number): void => fail(`its thread ended with code ${code}`);
      const settle = (): void => {
        worker.off("message", onMessage).off("error", onError).off("exit", onExit);
      };
      worker.on("message", onMessage).on("error", onError).on("exit", onExit);
      worker.postMessage(request, transfer);
    });
  }
}
