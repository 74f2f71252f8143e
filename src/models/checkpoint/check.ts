/** Looks at what a checkpoint says of itself before it is used: a file may be anybody's, and what is wrong in it must not be met in the middle of a run. */
import { CheckpointError } from "../../util/errors.ts";
import { showValue } from "../../util/options.ts";
import type { ParameterShapes } from "./architecture.ts";
import type { CheckpointState } from "./checkpoint.ts";

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isPositive = (value: unknown): boolean => isCount(value) && value !== 0;
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const holdsNumbers = (value: unknown): boolean => isObject(value) && Object.values(value).every((item) => typeof item === "number");
const isOptional = (is: (value: unknown) => boolean) => (value: unknown) => value === undefined || value === null || is(value);
const isRandom = (value: unknown): boolean => Array.isArray(value) && value.length === 4 && value.every((word) => isCount(word) && word < 2 ** 32);
const isScheduler = (value: unknown): boolean => isObject(value) && isCount(value["epoch"]) && isCount(value["batch"]);
const isScaler = (value: unknown): boolean => holdsNumbers(value) && ((value as Record<string, number>)["scale"] ?? 0) > 0;
const isReplica = (value: unknown): boolean => isObject(value) && isRandom(value["random"]) && typeof value["generator"] === "string" && holdsNumbers(value["modules"]);

const rules: readonly [keyof CheckpointState, (value: unknown) => boolean][] = [
  ["epoch", isCount],
  ["batchesDone", isCount],
  ["batchIdxTrain", isCount],
  ["averagePeriod", isPositive],
  ["random", isOptional(isRandom)],
  ["modules", holdsNumbers],
  ["replicas", isOptional((value) => Array.isArray(value) && value.every(isReplica))],
  ["scheduler", isScheduler],
  ["scaler", isOptional(isScaler)],
  ["optimizer", isObject],
  ["options", isObject],
  ["extra", isOptional(isObject)],
];

const bad = (at: string, message: string): CheckpointError => new CheckpointError("CHECKPOINT_BAD", { at, message, fix: "look at it with: serac checkpoint show" });

/** @throws CheckpointError CHECKPOINT_BAD where a run could not go on from it */
export function checkState(state: unknown, at: string): CheckpointState {
  if (!isObject(state)) throw bad(at, `its state of training is ${showValue(state)}`);
  for (const [name, isGood] of rules) if (!isGood(state[name])) throw bad(at, `its state of training has ${showValue(state[name])} for ${name}`);
  return state as unknown as CheckpointState;
}

/** What a checkpoint says of its tokens and its audio. @throws CheckpointError CHECKPOINT_BAD */
export function checkNumbers(
  { vocabSize, blankId, sampleRate }: { vocabSize: number; blankId: unknown; sampleRate: unknown },
  at: string,
): { blankId: number; sampleRate: number } {
  if (!isCount(blankId) || (blankId as number) >= vocabSize) throw bad(at, `it says that the blank is token ${showValue(blankId)} of ${vocabSize}`);
  if (typeof sampleRate !== "number" || !(sampleRate >= 1 && sampleRate <= 1e7)) throw bad(at, `it says a sampling rate of ${showValue(sampleRate)} Hz`);
  return { blankId: blankId as number, sampleRate };
}

/** A sampling rate that was given beside a checkpoint that tells its own. @throws CheckpointError CHECKPOINT_MISMATCH */
export function checkGivenRate(given: number | undefined, own: unknown, at: string): void {
  if (given === undefined || own === undefined || given === own) return;
  throw new CheckpointError("CHECKPOINT_MISMATCH", {
    at,
    message: `it was trained on features of --sample-rate ${String(own)}, not ${given}`,
    fix: `give --sample-rate ${String(own)}, or leave it out where a model is only used: other audio is resampled`,
  });
}

/** How the parameters of two models differ, in words. */
export function shapeDifferences(one: ParameterShapes, other: ParameterShapes): string[] {
  const found: string[] = [];
  for (const [key, shape] of one) {
    const there = other.get(key);
    if (!there) found.push(`${key} is missing`);
    else if (there.join() !== shape.join()) found.push(`${key} is (${there.join(", ")}), not (${shape.join(", ")})`);
  }
  for (const key of other.keys()) if (!one.has(key)) found.push(`${key} is one more`);
  return found;
}

/** The first few of several problems, and how many more there are. */
export const listed = (problems: readonly string[], most = 5): string =>
  problems.slice(0, most).join("; ") + (problems.length > most ? `; and ${problems.length - most} more` : "");

/** A running average has the model's parameters, or there is none. @throws CheckpointError CHECKPOINT_MISMATCH */
export function checkAverage(model: ParameterShapes, average: ParameterShapes, at: string): void {
  const problems = average.size === 0 ? [] : shapeDifferences(model, average);
  if (problems.length > 0) throw new CheckpointError("CHECKPOINT_MISMATCH", { at, message: `its running average is of another model than its parameters: ${listed(problems)}` });
}
