/** Checks of manifests. */
export { type CheckOptions, type CheckReport, type CheckTokenizer, changesPath, checkManifest } from "./check.ts";
export { type IssueKind, issueKinds, type KindReport, type Severity } from "./kinds.ts";
export type { Change } from "./mend.ts";
