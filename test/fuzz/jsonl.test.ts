import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll } from "vitest";
import { readEntries } from "../../src/data/manifest/index.ts";
import { readJsonl } from "../../src/formats/jsonl.ts";
import { damaged, fuzz } from "./fuzz.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Deeper than Python reads, open and closed, and a long text without an end. */
const long = ["[".repeat(3000), `{"a": ${"[".repeat(2000)}${"]".repeat(2000)}}`, `{"audio_filepath": "${"x".repeat(20_000)}`];

const lines = fc
  .array(fc.oneof(fc.json(), fc.constantFrom("", "\r", "\ufeff", "{", '{"a": NaN}', "[[[[", ...long)), { maxLength: 8 })
  .map((all) => Buffer.from(all.join("\n"), "utf8"));
const anything = fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged(lines), damaged(lines.map((bytes) => gzipSync(bytes))));

fuzz("JSON lines: any bytes give values or a coded error, with and without skipping", anything, async (bytes) => {
  const path = join(folder, "in.jsonl");
  writeFileSync(path, bytes);
  for await (const _ of readJsonl(path, bytes.length % 4 === 0 ? {} : { onError: () => {} }));
});

const entries = fc
  .array(
    fc.oneof(
      fc.record({ audio_filepath: fc.anything(), duration: fc.anything(), text: fc.anything(), offset: fc.anything() }, { requiredKeys: [] }).map((entry) => {
        try {
          return JSON.stringify(entry, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value));
        } catch {
          return "{}";
        }
      }),
      fc.constantFrom("", "\ufeff{}", "{", "[", '{"audio_filepath": "a", "duration": NaN}', '{"a":\r', ...long),
    ),
    { maxLength: 6 },
  )
  .map((all) => Buffer.from(all.join("\n"), "utf8"));

fuzz("manifests: any bytes give utterances or a coded error, with and without skipping", fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged(entries)), async (bytes) => {
  const path = join(folder, "in.json");
  writeFileSync(path, bytes);
  for await (const _ of readEntries(path, bytes.length % 4 === 0 ? {} : { onError: () => {}, needDuration: false }));
});
