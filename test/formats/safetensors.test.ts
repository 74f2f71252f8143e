import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeFileAtomic } from "../../src/formats/atomic.ts";
import { parseSafetensors, readSafetensors, type SafeTensor, serializeSafetensors, writeSafetensors } from "../../src/formats/safetensors.ts";
import { FormatError } from "../../src/util/errors.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-safetensors-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const golden = new URL("../golden/fbank.safetensors", import.meta.url).pathname;

function withHeader(header: unknown, data = new Uint8Array(0)): Uint8Array {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return new Uint8Array(Buffer.concat([length, json, data]));
}

function codeOf(f: () => unknown): string {
  try {
    f();
  } catch (error) {
    if (error instanceof FormatError) return error.code;
    throw error;
  }
  return "none";
}

test("a file written elsewhere reads, by path and from memory alike", () => {
  const { tensors, metadata } = readSafetensors(golden);
  expect(tensors.get("a.fbank")).toMatchObject({ dtype: "F32", shape: [100, 80] });
  expect(tensors.get("a.wave")?.data).toBeInstanceOf(Float32Array);
  expect(JSON.parse(metadata.c ?? "").sampling_rate).toBe(8000);
  expect(parseSafetensors(readFileSync(golden))).toEqual({ tensors, metadata });
});

test("every dtype comes back as it was, also from an unaligned buffer", () => {
  const tensors: Record<string, SafeTensor> = {
    f64: { dtype: "F64", shape: [2], data: Float64Array.of(0.1, -0) },
    f32: { dtype: "F32", shape: [1, 3], data: Float32Array.of(1, NaN, Infinity) },
    i64: { dtype: "I64", shape: [1], data: BigInt64Array.of(-(2n ** 62n)) },
    i32: { dtype: "I32", shape: [], data: Int32Array.of(-7) },
    i16: { dtype: "I16", shape: [1], data: Int16Array.of(-3) },
    i8: { dtype: "I8", shape: [3], data: Int8Array.of(-1, 0, 1) },
    u8: { dtype: "U8", shape: [0, 4], data: new Uint8Array(0) },
    bool: { dtype: "BOOL", shape: [3], data: Uint8Array.of(1, 0, 1) },
    bf16: { dtype: "BF16", shape: [2], data: Uint16Array.of(0x3f80, 0xc000) },
    "7": { dtype: "F16", shape: [1], data: Uint16Array.of(0x3c00) },
  };
  const bytes = serializeSafetensors(tensors, { epoch: "3" });
  expect(new DataView(bytes.buffer).getUint32(0, true) % 8).toBe(0);
  const shifted = new Uint8Array(bytes.length + 1);
  shifted.set(bytes, 1);
  const result = parseSafetensors(shifted.subarray(1));
  expect(Object.fromEntries(result.tensors)).toEqual(tensors);
  expect(result.metadata).toEqual({ epoch: "3" });
  writeSafetensors(join(folder, "new", "x.safetensors"), tensors, { epoch: "3" });
  expect(new Uint8Array(readFileSync(join(folder, "new", "x.safetensors")))).toEqual(bytes);
});

test("names and shapes round-trip", () => {
  const tensor = fc
    .array(fc.nat(3), { maxLength: 3 })
    .map((shape): SafeTensor => ({ dtype: "I32", shape, data: new Int32Array(shape.reduce((a, b) => a * b, 1)).map((_, i) => i) }));
  const name = fc.string({ unit: "grapheme" }).filter((s) => s !== "__metadata__");
  fc.assert(
    fc.property(fc.array(fc.tuple(name, tensor)), (items) => {
      const tensors = new Map(items);
      expect(new Map(parseSafetensors(serializeSafetensors(tensors)).tensors)).toEqual(tensors);
    }),
  );
});

test("hostile headers are told apart from files cut short", () => {
  const one = (fields: object, bytes = 4) => withHeader({ x: { dtype: "F32", shape: [1], data_offsets: [0, 4], ...fields } }, new Uint8Array(bytes));
  expect(codeOf(() => parseSafetensors(one({})))).toBe("none");
  expect(codeOf(() => parseSafetensors(new Uint8Array(3)))).toBe("SAFETENSORS_TRUNCATED");
  expect(codeOf(() => parseSafetensors(one({}).subarray(0, 20)))).toBe("SAFETENSORS_TRUNCATED");
  expect(codeOf(() => parseSafetensors(one({}, 3)))).toBe("SAFETENSORS_TRUNCATED");
  expect(codeOf(() => parseSafetensors(new Uint8Array(64).fill(0xff)))).toBe("SAFETENSORS_BAD");
  expect(codeOf(() => parseSafetensors(withHeader("[]")))).toBe("SAFETENSORS_BAD");
  expect(codeOf(() => parseSafetensors(withHeader("{")))).toBe("SAFETENSORS_BAD");
  expect(codeOf(() => parseSafetensors(withHeader({ x: null })))).toBe("SAFETENSORS_BAD");
  for (const fields of [
    { dtype: "F99" },
    { dtype: "constructor" },
    { shape: [2] },
    { shape: [-1] },
    { shape: [1e300, 1e300] },
    { shape: "1" },
    { data_offsets: [0, 1e18] },
    { data_offsets: [4, 0] },
    { data_offsets: [0] },
  ]) {
    expect(codeOf(() => parseSafetensors(one(fields)))).toBe("SAFETENSORS_BAD");
  }
  expect(codeOf(() => parseSafetensors(one({ data_offsets: [1, 5] }, 5)))).toBe("SAFETENSORS_BAD"); // a hole
  expect(codeOf(() => parseSafetensors(one({}, 5)))).toBe("SAFETENSORS_BAD"); // bytes of no tensor
});

test("any bytes give tensors or a coded error", () => {
  const valid = serializeSafetensors({ a: { dtype: "F32", shape: [2], data: Float32Array.of(1, 2) } }, { k: "v" });
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array(),
        fc.tuple(fc.nat(valid.length - 1), fc.nat(255), fc.nat(valid.length)).map(([i, v, n]) => valid.with(i, v).subarray(0, n)),
      ),
      (bytes) => {
        codeOf(() => parseSafetensors(bytes));
      },
    ),
    { numRuns: 500 },
  );
});

test("errors name the file", () => {
  const path = join(folder, "cut.safetensors");
  writeFileSync(path, readFileSync(golden).subarray(0, 5000));
  expect(() => readSafetensors(path)).toThrow(/cut\.safetensors: .*\[SAFETENSORS_TRUNCATED\]/);
  expect(codeOf(() => readSafetensors(join(folder, "none")))).toBe("FILE_MISSING");
  expect(codeOf(() => readSafetensors(folder))).toBe("FILE_UNREADABLE");
});

test("a failed write leaves the old file and no other", () => {
  const path = join(folder, "atomic", "a.txt");
  writeFileAtomic(path, "old");
  expect(codeOf(() => writeSafetensors(path, { x: { dtype: "F32", shape: [2], data: Float32Array.of(1) } }))).toBe("SAFETENSORS_BAD");
  expect(codeOf(() => writeFileAtomic(join(path, "b"), "x"))).toBe("FILE_UNWRITABLE");
  expect(readFileSync(path, "utf8")).toBe("old");
  expect(readdirSync(join(folder, "atomic"))).toEqual(["a.txt"]);
});
