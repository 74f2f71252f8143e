// Writes docs/errors.md from src/util/errorCodes.ts. Run: node scripts/generate-error-docs.mjs (after npm run build:js)
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");

/** @param {Record<string, string>} codes @returns the page */
export function errorPage(codes) {
  const paragraphs = Object.entries(codes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, text]) => `## ${code}\n\n${text}\n`);
  return `<!-- Generated from src/util/errorCodes.ts by scripts/generate-error-docs.mjs: do not edit. -->\n# Errors\n\nEvery error that serac throws on purpose has a code, which does not change, in \`error.code\` and in brackets at the end of its message.\n\n${paragraphs.join("\n")}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { errorCodes } = await import(join(root, "build", "js", "util", "errorCodes.js"));
  mkdirSync(join(root, "docs"), { recursive: true });
  writeFileSync(join(root, "docs", "errors.md"), errorPage(errorCodes));
}
