/** Checks of manifests. */
export { type CheckOptions, type CheckReport, checkManifest } from "./check.ts";
export { changesPath } from "./fixOutput.ts";
export { type IssueKind, issueKinds, type KindReport, type Severity } from "./kinds.ts";
export type { Change } from "./mend.ts";
export type { CheckTokenizer } from "./texts.ts";
