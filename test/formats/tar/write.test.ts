import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { readTar } from "../../../src/formats/tar/index.ts";
import { TarWriter } from "../../../src/formats/tar/write.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-write-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An archive of files of these sizes. */
function write(sizes: readonly number[], bufferSize: number): { path: string; sha256: string; bytes: number } {
  const path = join(folder, `${bufferSize}.tar`);
  const fd = openSync(path, "w");
  const writer = new TarWriter(fd, { bufferSize });
  for (const [i, size] of sizes.entries()) {
    const file = join(folder, `f${i}`);
    writeFileSync(file, Buffer.alloc(size, i + 1));
    utimesSync(file, 1000.5, 1000.5);
    if (i % 2 === 0) writer.addFile(file, `f${i}`);
    else writer.addBytes(`f${i}`, Buffer.alloc(size, i + 1));
  }
  const summary = writer.finish();
  closeSync(fd);
  return { path, ...summary };
}

test("the buffer's size changes nothing, also where headers and data end at its end", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(fc.nat(3000), fc.constantFrom(0, 511, 512, 513, 8704, 10240)), { maxLength: 8 }),
      fc.constantFrom(10240, 10752, 11264, 12288, 20480, 10241),
      async (sizes, bufferSize) => {
        const small = write(sizes, bufferSize);
        const large = write(sizes, 1 << 20);
        expect(readFileSync(small.path).equals(readFileSync(large.path))).toBe(true);
        expect(small.sha256).toBe(large.sha256);
        expect(small.bytes % 10240).toBe(0);
        let i = 0;
        for await (const { name, data } of readTar(small.path)) {
          expect(name).toBe(`f${i}`);
          expect((data as Buffer).equals(Buffer.alloc(sizes[i] as number, i + 1))).toBe(true);
          i++;
        }
        expect(i).toBe(sizes.length);
      },
    ),
    { numRuns: 60 },
  );
});
