/**
 * One replica: a thread with a model of its own on the parameters of another thread. It computes losses and gradients of its part of each
 * batch and hands the gradients over; it never changes a parameter.
 */
import { parentPort, workerData } from "node:worker_threads";
import { AsrModel, asrModelOptions, type ModelConfig } from "../models/index.ts";
import { autocast, callOperator, Generator, scope, setThreads, shareTensors, type Tensor, takeTensors } from "../torch/index.ts";
import { type SentError, sendError } from "../util/sentError.ts";
import { batchLoss, type LossInputs, scaled } from "./loss.ts";
import type { LossSums } from "./metrics.ts";
import type { TrainOptions } from "./options.ts";
import { modulesState, type ReplicaState, replicaStreams, restoreModules } from "./replicaState.ts";

/** What a replica is started with. */
export interface ReplicaStart {
  rank: number;
  threads: number;
  config: ModelConfig;
  options: TrainOptions;
  /** The parameters, shared, in the model's order. */
  parameters: number[];
  state: ReplicaState | undefined;
}

/** What it is told. */
export type ReplicaRequest =
  | { kind: "step"; part: LossInputs; y: number[][]; b: number; batchCount: number; lossScale: number }
  | { kind: "state" }
  | { kind: "restore"; state: ReplicaState }
  | { kind: "close" };

/** What it answers. */
export type ReplicaReply =
  | { kind: "step"; sums: LossSums /** Of the parameters, shared; 0 where there is none. */; gradients: number[] }
  | { kind: "state"; state: ReplicaState }
  | { kind: "failed"; error: SentError };

/** Serves requests until it is closed. */
export function serve({ rank, threads, config, options, parameters: shared, state }: ReplicaStart, reply: (message: ReplicaReply) => void): (request: ReplicaRequest) => void {
  setThreads(threads);
  const { random, generator } = replicaStreams(options.seed, rank);
  const model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(options.seed) }));
  const parameters = model.parameters();
  scope(() =>
    takeTensors(shared).forEach((values, i) => {
      callOperator("aten::set_data", [parameters[i] as Tensor, values]);
      (parameters[i] as Tensor).forget();
    }),
  );
  const restore = (from: ReplicaState): void => {
    random.restore(from.random);
    generator.restore(Uint8Array.from(Buffer.from(from.generator, "base64")));
    restoreModules(model, from.modules);
  };
  if (state) restore(state);
  model.train({ random, generator });

  return (request) => {
    if (request.kind === "close") {
      model.dispose();
      return;
    }
    if (request.kind === "restore") restore(request.state);
    if (request.kind === "state" || request.kind === "restore") {
      reply({ kind: "state", state: { random: random.state(), generator: Buffer.from(generator.state()).toString("base64"), modules: modulesState(model) } });
      return;
    }
    const { part, y, b, batchCount, lossScale } = request;
    model.setBatchCount(batchCount);
    scope(() => {
      const { loss, sums } = autocast({ enabled: options.useBf16 }, () => batchLoss(model, part, y, options, b, random));
      if (Number.isFinite(sums.loss)) scaled(loss, lossScale).backward();
      reply({ kind: "step", sums, gradients: shareTensors(parameters.map((p) => p.grad)) });
      for (const p of parameters) p.grad = null;
    });
  };
}

if (parentPort) {
  const port = parentPort;
  const reply = (message: ReplicaReply): void => port.postMessage(message);
  const guarded = (body: () => void): void => {
    try {
      body();
    } catch (error) {
      reply({ kind: "failed", error: sendError(error) });
    }
  };
  let handle: (request: ReplicaRequest) => void = () => {};
  guarded(() => {
    handle = serve(workerData as ReplicaStart, reply);
  });
  port.on("message", (request: ReplicaRequest) => {
    guarded(() => handle(request));
    if (request.kind === "close") port.close();
  });
}
