/** Checks the keys of Canary's prompts: what is missing, what no prompt has, and what NeMo would take for something else. */
import { type CanaryVersion, canaryVersionOf, examineCanary, isCanary, writeCanary } from "../canary.ts";
import { type CheckedLine, withoutCode } from "./line.ts";

/** @param canary "auto" looks at lines that have Canary's keys, and tells their version by them */
export function checkCanary(line: CheckedLine, canary: CanaryVersion | "auto" | "none"): void {
  const { value, at } = line;
  if (canary === "none" || (canary === "auto" && !isCanary(value))) return;
  const version = canary === "auto" ? canaryVersionOf(value) : canary;
  const { slots, errors, warnings } = examineCanary(value, { version, at });
  for (const error of errors) line.found(/^no "/.test(withoutCode(error)) ? "canaryMissing" : "canaryValue", withoutCode(error));
  for (const warning of warnings) line.found("canaryTask", withoutCode(warning));
  const spelled: Record<string, string> = { ...writeCanary({ ...slots, emotion: slots.emotion }, { version }) };
  const wrong = new Set(errors.map((error) => /"(\w+)"/.exec(withoutCode(error))?.[1]));
  for (const key of ["pnc", "itn", "timestamp", "diarize", "emotion"] as const) {
    const said = value[key];
    if (said === undefined || said === null || wrong.has(key)) continue;
    // NeMo takes "Yes" and writes the token for no; booleans and numbers are no strings; emotions have to be the token itself.
    const right = key === "emotion" ? `<|emo:${slots.emotion}|>` : slots[key] ? "yes" : "no";
    const fine = key === "emotion" ? said === right : typeof said === "string" && (said === said.toLowerCase() || said === "True" || said === "False" || said === "No");
    if (fine || (version === "v1" && key !== "pnc")) continue;
    const message = `"${key}" is ${JSON.stringify(said)}, NeMo reads ${JSON.stringify(spelled[key] ?? right)}`;
    line.found("canarySpelling", message, (mender) => mender.set("canarySpelling", message, key, right));
  }
}
