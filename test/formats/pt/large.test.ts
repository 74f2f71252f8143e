/**
 * Files of torch.save beyond 4 GiB, whose places and sizes need zip64 fields: written and read piece by piece. Only with SERAC_LARGE=1: it takes a minute and 5 GB of disk.
 * Where Debian's python3-torch is there, torch reads the file too.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { memoryTensor, openPt, type PtDict, PtStorage, PtTensor, ptDict, writePt } from "../../../src/formats/pt/index.ts";

const python = "/usr/bin/python3";
const large = process.env["SERAC_LARGE"] === "1";
const count = 2 ** 30 + 12_345; // elements of 4 bytes: more than 4 GiB
const factor = 0x9e3779b1;

/** Element i is i times the factor, modulo 2^32. */
function fill(begin: number, into: Uint8Array): void {
  const values = new Int32Array(into.buffer, into.byteOffset, into.byteLength / 4);
  for (let i = 0, n = begin / 4; i < values.length; i++, n++) values[i] = Math.imul(n, factor);
}

describe.skipIf(!large)("beyond 4 GiB", () => {
  const folder = mkdtempSync(join(tmpdir(), "serac-large-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  test("every element comes back, of a tensor that is larger and of one that lies behind it; memory stays that of a piece", { timeout: 1_200_000 }, () => {
    const path = join(folder, "large.pt");
    const before = process.resourceUsage().maxRSS;
    const storage = new PtStorage({ dtype: "int32", size: count, at: "made up", read: fill });
    const behind = memoryTensor("int32", [3], new Uint8Array(Int32Array.from([1, 2, 3]).buffer));
    writePt(path, ptDict({ large: new PtTensor(storage, { dtype: "int32", shape: [count], strides: [1], offset: 0 }), behind }));
    expect(statSync(path).size).toBeGreaterThan(2 ** 32 + 4 * 12_345);
    const file = openPt(path);
    const value = file.value as PtDict;
    const tensor = value.get("large") as PtTensor;
    expect(tensor.shape).toEqual([count]);
    const piece = new Uint8Array(16 << 20);
    const expected = new Uint8Array(piece.length);
    let same = 0;
    for (let begin = 0; begin < 4 * count; begin += piece.length) {
      const length = Math.min(piece.length, 4 * count - begin);
      tensor.storage.read(begin, piece.subarray(0, length)); // in order, so that the checksum is compared too
      fill(begin, expected.subarray(0, length));
      if (Buffer.compare(piece.subarray(0, length), expected.subarray(0, length)) === 0) same += length;
    }
    expect(same).toBe(4 * count);
    expect([...new Int32Array((value.get("behind") as PtTensor).bytes().buffer)]).toEqual([1, 2, 3]);
    expect(() => tensor.bytes()).toThrow(expect.objectContaining({ code: "PT_TOO_LARGE" }));
    file.close();
    const grown = (process.resourceUsage().maxRSS - before) / 1024; // MiB
    console.log(`4 GiB written and read: ${grown.toFixed(0)} MiB more at the most`);
    expect(grown).toBeLessThan(512);

    const program = `
import torch
value = torch.load("${path}")
t = value["large"]
assert t.dtype == torch.int32 and t.shape == (${count},), t.shape
step = 1 << 22
for begin in range(0, ${count}, step):
    part = t[begin:begin + step].to(torch.int64) & 0xffffffff
    index = torch.arange(begin, begin + len(part))
    assert torch.equal(part, (index * ${factor}) & 0xffffffff), begin
assert value["behind"].tolist() == [1, 2, 3]
print(torch.__version__, "reads it")
`;
    if (spawnSync(python, ["-c", "import torch"]).status !== 0) return;
    const run = spawnSync(python, ["-c", program], { encoding: "utf8" });
    console.log(run.stdout.trim());
    expect(run.stderr).toBe("");
    expect(run.stdout).toContain("reads it");
  });
});
