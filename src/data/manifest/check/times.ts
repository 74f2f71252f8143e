/** Checks offset and duration, with themselves and with the audio. */
import { pyFloat } from "../../../formats/pythonJson.ts";
import type { HeaderResult } from "./headers.ts";
import type { IssueKind } from "./kinds.ts";
import { type CheckedLine, showSeconds } from "./line.ts";
import type { LineMender } from "./mend.ts";

/**
 * @param header undefined where no audio is looked at
 * @param tolerance seconds by which durations may differ
 * @returns the duration that counts from here on; undefined where there is none
 */
export function checkTimes(line: CheckedLine, header: HeaderResult | undefined, tolerance: number): number | undefined {
  const { offset } = line.value;
  const duration = line.value["duration"] ?? line.value["context_duration"];
  const goodOffset = offset === undefined || offset === null || (typeof offset === "number" && Number.isFinite(offset) && offset >= 0);
  if (!goodOffset) line.lost("badOffset", `"offset" is ${JSON.stringify(offset)}`);
  const start = typeof offset === "number" && goodOffset ? offset : 0;
  if (header !== undefined && "failure" in header) line.lost(header.failure, header.message);
  const real = header === undefined || "failure" in header ? undefined : header.frames / header.rate;
  if (real === 0) {
    line.lost("emptyAudio", "the audio has no samples");
    return undefined;
  }
  const left = real === undefined || !goodOffset ? undefined : real - start;
  /** Sets the duration to what is left of the audio; a line of which nothing is left goes. */
  const correct = (kind: IssueKind, why: string): void => {
    const mend = (mender: LineMender): void => {
      if ((left as number) > tolerance) mender.set(kind, why, "duration", pyFloat(start === 0 ? (left as number) : Math.round((left as number) * 1e6) / 1e6));
      else mender.drop(kind, why);
    };
    line.found(kind, why, left === undefined ? undefined : mend);
  };
  if (!(typeof duration === "number" && Number.isFinite(duration) && duration > 0)) {
    if (duration === undefined || duration === null) correct("noDuration", 'no "duration"');
    else correct("badDuration", `"duration" is ${JSON.stringify(duration)}`);
    return left;
  }
  if (left === undefined || real === undefined) return duration;
  if (duration > left + tolerance && typeof offset === "number") {
    correct("pastEnd", `${showSeconds(start)} + ${showSeconds(duration)} is after the end, ${showSeconds(real)}`);
    return left;
  }
  if (typeof offset !== "number" && Math.abs(duration - real) > tolerance) {
    correct("wrongDuration", `the manifest says ${showSeconds(duration)}, the audio has ${showSeconds(real)}`);
    return real;
  }
  return duration;
}
