/**
 * Prints a report and writes it as HTML.
 *
 *   node build/demo/demo/showReport.js RESULTS.json --html REPORT.html
 */
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../src/formats/atomic.ts";
import type { Report } from "./report.ts";
import { reportHtml, reportText } from "./report.ts";

const { values, positionals } = parseArgs({ options: { html: { type: "string" } }, allowPositionals: true });
if (positionals.length !== 1) {
  console.error("usage: showReport RESULTS.json [--html REPORT.html]");
  process.exit(2);
}
const report = JSON.parse(await readFile(positionals[0] as string, "utf8")) as Report;
process.stdout.write(reportText(report));
if (values.html !== undefined) {
  writeFileAtomic(values.html, reportHtml(report));
  console.log(`The same as a page: ${values.html}`);
}
