/** What the commands that train share: progress, the result, what to type next. */
import { dirname } from "node:path";
import { endAtSecondSignal } from "../torch/index.ts";
import type { TrainReporter, TrainResult } from "../train/index.ts";
import { showBytes, showNumber } from "../util/progress.ts";
import type { Output } from "./output.ts";

/** Aborts at the first Ctrl-C; the second one ends the process at once, also in the middle of an update, which may take minutes. */
export function trainSignal(out: Output): AbortSignal {
  const { signal } = out;
  endAtSecondSignal(); // takes over from the handlers that `signal` has set
  return signal;
}

/** Tells how training goes: lines of the log, and on a terminal a line that is painted again after every batch. */
export function terminalReporter(out: Output): TrainReporter {
  const say = (line: string): void => out.say(line);
  if (!out.isTerminal) return { say };
  let line: { progress: ReturnType<typeof out.progress>; epoch: number } | undefined;
  return {
    say,
    progress({ epoch, numEpochs, done, total, loss, audioRate, peakBytes }) {
      if (line?.epoch !== epoch) line = { epoch, progress: out.progress(total, "batches", `epoch ${epoch}/${numEpochs}`, done - 1) };
      const memory = peakBytes === undefined ? "" : `, peak ${showBytes(peakBytes)}`;
      line.progress.update(done, `loss ${loss.toPrecision(4)}, ${showNumber(audioRate)} s of audio/s${memory}`);
      if (total !== undefined && done >= total) line.progress.finish();
    },
  };
}

/** Prints what training came to. @param test a manifest to decode next @returns the exit code */
export function printResult(out: Output, result: TrainResult, test = "test.jsonl"): number {
  if (out.json) out.print(JSON.stringify(result));
  else if (result.diagnostics) for (const line of result.diagnostics) out.print(line);
  else if (result.checkpoint !== "") out.print(result.checkpoint);
  if (result.interrupted) return 130;
  if (!result.diagnostics && result.checkpoint.includes("epoch-"))
    out.next(
      `serac decode --exp-dir ${dirname(result.checkpoint)} --epoch ${result.epochs}${result.epochs > 1 ? ` --avg ${Math.min(5, result.epochs - 1)}` : ""} --manifest ${test}`,
      `serac transcribe --checkpoint ${result.checkpoint} a.wav`,
    );
  return 0;
}
