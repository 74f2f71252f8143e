/** The thread of a `TextCounter`. */
import { parentPort } from "node:worker_threads";
import type { TextCounterAnswer, TextCounterJob } from "./textCounter.ts";
import { TextCounts } from "./textCounts.ts";

const counts = new TextCounts();
parentPort?.on("message", (job: TextCounterJob) => {
  const { characters, wordTotal, characterRates, wordRates, units, astral, words } = counts;
  const answer: TextCounterAnswer = job === "end" ? { characters, wordTotal, characterRates, wordRates, units, astral, words } : "counted";
  if (job !== "end") counts.add(job);
  parentPort?.postMessage(answer);
});
