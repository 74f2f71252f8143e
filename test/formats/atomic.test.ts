import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeFolder, makeWritableFolder } from "../../src/formats/atomic.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "serac-atomic-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a folder is made with those above it, or was there", () => {
  const deep = join(folder, "a", "b", "c");
  makeFolder(deep);
  makeFolder(deep);
  makeFolder("/");
  expect(statSync(deep).isDirectory()).toBe(true);
});

test("a folder that cannot be made is an error that names it, and never an endless loop", () => {
  writeFileSync(join(folder, "file"), "");
  for (const path of [join(folder, "file"), join(folder, "file", "below"), ...(existsSync("/proc/self") ? ["/proc/foo", "/proc/foo/bar"] : [])])
    expect(() => makeWritableFolder(path), path).toThrow(expect.objectContaining({ code: "FILE_UNWRITABLE", at: path }));
});
