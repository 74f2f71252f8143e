/** What the commands that train share: progress, the result, what to type next. */
import type { TrainReporter, TrainResult } from "../train/index.ts";
import type { Output } from "./output.ts";

/** Tells the terminal how training goes. */
export function terminalReporter(out: Output): TrainReporter {
  let progress: ReturnType<typeof out.progress> | undefined;
  return {
    say: (line) => out.say(line),
    progress(done, total, note) {
      if (done === 1 || !progress) progress = out.progress(total, "batches", "", done - 1);
      progress.update(done, note);
      if (total !== undefined && done >= total) progress.finish();
    },
  };
}

/** Prints what training came to. @returns the exit code */
export function printResult(out: Output, result: TrainResult, { expDir, test = "test.jsonl" }: { expDir: string; test?: string | undefined }): number {
  if (out.json) out.print(JSON.stringify(result));
  else if (result.diagnostics) for (const line of result.diagnostics) out.print(line);
  else if (result.checkpoint !== "") out.print(result.checkpoint);
  if (result.interrupted) return 130;
  if (!result.diagnostics && result.checkpoint.includes("epoch-"))
    out.next(
      `serac decode --exp-dir ${expDir} --epoch ${result.epochs}${result.epochs > 1 ? ` --avg ${Math.min(5, result.epochs - 1)}` : ""} --manifest ${test}`,
      `serac transcribe --checkpoint ${result.checkpoint} a.wav`,
    );
  return 0;
}
