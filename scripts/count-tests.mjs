// Prints "N passed, N failed" from vitest's JSON report. usage: node scripts/count-tests.mjs REPORT EXIT_STATUS FAILURES_ELSEWHERE
import { existsSync, readFileSync } from "node:fs";

const [path, status, elsewhere] = process.argv.slice(2);
let passed = 0;
let failed = 0;
if (existsSync(path)) {
  for (const { status: fileStatus, assertionResults } of JSON.parse(readFileSync(path, "utf8")).testResults) {
    const count = (wanted) => assertionResults.filter((test) => test.status === wanted).length;
    passed += count("passed");
    failed += count("failed");
    if (fileStatus === "failed" && count("failed") === 0) failed++; // a file that does not load
  }
}
if (status !== "0" && failed === 0) failed++; // an error outside of any test, or a runner that did not run
failed += Number(elsewhere);
if (passed === 0 && failed === 0) failed++; // nothing ran: that is no success
process.exitCode = failed === 0 ? 0 : 1;
console.log(`${passed} passed, ${failed} failed`);
