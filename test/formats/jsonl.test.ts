import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type JsonLine, type ReadJsonlOptions, readJsonl, writeJsonl } from "../../src/formats/jsonl.ts";
import { columnOf, jsonErrorAt } from "../../src/formats/jsonSyntax.ts";
import type { FormatError } from "../../src/util/errors.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-jsonl-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function read(content: string | Uint8Array, options?: ReadJsonlOptions): Promise<JsonLine[]> {
  const path = join(folder, "in.jsonl");
  writeFileSync(path, content);
  const result: JsonLine[] = [];
  for await (const item of readJsonl(path, options)) result.push(item);
  return result;
}

test("byte order mark, CRLF, blank lines and a missing last newline do not matter", async () => {
  expect(await read('\ufeff{"a":1}\r\n\r\n  \n[2]\n"é"')).toEqual([
    { value: { a: 1 }, line: 1 },
    { value: [2], line: 4 },
    { value: "é", line: 5 },
  ]);
  expect(await read("")).toEqual([]);
  expect(await read("\n")).toEqual([]);
});

test("gzip is told by its first bytes, members may follow one another", async () => {
  expect(await read(Buffer.concat([gzipSync("1\n2"), gzipSync("3\n4\n")]))).toEqual([1, 23, 4].map((value, i) => ({ value, line: i + 1 })));
});

test("damaged gzip is a coded error", async () => {
  const whole = gzipSync(Array.from({ length: 5000 }, (_, i) => `{"i":${i * 7919}}\n`).join(""));
  await expect(read(whole.subarray(0, whole.length - 9))).rejects.toMatchObject({ code: "GZIP_BAD" });
  await expect(read(Buffer.concat([whole.subarray(0, whole.length - 8), Buffer.alloc(8, 0xff)]))).rejects.toMatchObject({ code: "GZIP_BAD" }); // checksum
});

test("a bad line gives file:line:column", async () => {
  await expect(read('{"a":1}\n{"b":1,}\n')).rejects.toThrow(/in\.jsonl:2:8: .*\[JSONL_BAD_LINE\]/);
  await expect(read('{"ä😀": nan}')).rejects.toThrow(/:1:8: not JSON from here on: nan\}/);
  await expect(read('{"a": "b')).rejects.toThrow(/:1:9: the line ends inside/);
  await expect(read(Buffer.from([0x22, 0x61, 0xff, 0x22]))).rejects.toThrow(/:1:3: not UTF-8/);
  expect(await read('"\ufffd"')).toEqual([{ value: "\ufffd", line: 1 }]);
});

test("onError sees every bad line and reading goes on", async () => {
  const errors: FormatError[] = [];
  expect(await read("1\nx\n2\n{\n3", { onError: (e) => errors.push(e) })).toEqual([1, 2, 3].map((value, i) => ({ value, line: 2 * i + 1 })));
  expect(errors.map((e) => e.at?.split(":").slice(-2))).toEqual([
    ["2", "1"],
    ["4", "2"],
  ]);
});

test("missing files and folders are coded errors", async () => {
  await expect(readJsonl(join(folder, "none")).next()).rejects.toMatchObject({ code: "FILE_MISSING" });
  await expect(readJsonl(folder).next()).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
});

test("values round-trip, plain and gzip, also over chunk borders", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.jsonValue()), fc.nat(3000), fc.boolean(), async (values, pad, zip) => {
      const all = [...values, "x".repeat(pad * 200), ...values];
      const path = join(folder, zip ? "out.jsonl.gz" : "out.jsonl");
      await writeJsonl(path, all);
      const back: unknown[] = [];
      for await (const { value } of readJsonl(path)) back.push(value);
      expect(back).toEqual(JSON.parse(JSON.stringify(all)));
    }),
    { numRuns: 60 },
  );
});

test("stopping early closes the file; errors of the source leave the old file", async () => {
  const path = join(folder, "sub", "a.jsonl");
  await writeJsonl(path, [1, 2, 3]);
  for await (const { value } of readJsonl(path)) {
    expect(value).toBe(1);
    break;
  }
  async function* failing() {
    yield 1;
    throw new RangeError("mine");
  }
  await expect(writeJsonl(path, failing())).rejects.toThrow(RangeError);
  await expect(writeJsonl(path, [undefined])).rejects.toMatchObject({ code: "JSONL_BAD_LINE" });
  await expect(writeJsonl(join(path, "below"), [1])).rejects.toMatchObject({ code: "FILE_UNWRITABLE" });
  expect(readFileSync(path, "utf8")).toBe("1\n2\n3\n");
  expect(readdirSync(join(folder, "sub"))).toEqual(["a.jsonl"]);
});

test("jsonErrorAt agrees with JSON.parse on what is JSON", () => {
  const pieces = fc
    .array(fc.constantFrom("{", "}", "[", "]", '"a"', ":", ",", "1", "-", ".5", "e3", "true", "nul", " ", '"', "\\u12", "\\n", "\t"), { maxLength: 12 })
    .map((p) => p.join(""));
  fc.assert(
    fc.property(fc.oneof(pieces, fc.string(), fc.json()), (text) => {
      let good = true;
      try {
        JSON.parse(text);
      } catch {
        good = false;
      }
      expect(jsonErrorAt(text) === -1).toBe(good);
    }),
    { numRuns: 3000 },
  );
  expect(jsonErrorAt("[".repeat(200_000))).toBe(200_000);
});

test("columns count characters, of whatever length and depth a line is", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.nat(), (text, n) => {
      const index = n % (text.length + 1);
      expect(columnOf(text, index)).toBe([...text.slice(0, index)].length + 1);
    }),
  );
  const long = "a".repeat(8_000_000);
  expect(jsonErrorAt(`{"text": "${long}`)).toBe(10 + long.length);
  expect(jsonErrorAt(`{"text": "${"\\n".repeat(1_000_000)}" x`)).toBe(12 + 2_000_000);
  expect(jsonErrorAt("[".repeat(1_000_000))).toBe(1_000_000);
});

test("any bytes give values or a coded error", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.uint8Array(),
        fc.uint8Array().map((b) => Buffer.concat([Buffer.from([0x1f, 0x8b, 8]), b])),
      ),
      async (bytes) => {
        try {
          await read(bytes);
        } catch (error) {
          expect((error as FormatError).code).toMatch(/JSONL_BAD_LINE|GZIP_BAD/);
        }
      },
    ),
  );
});
