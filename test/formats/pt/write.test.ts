import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { crc32, tableCrc32 } from "../../../src/formats/crc32.ts";
import {
  memoryTensor,
  OrderedDict,
  openPt,
  type PtDict,
  PtTensor,
  type PtValue,
  PyPlaceholder,
  PyTuple,
  parsePt,
  ptDict,
  serializePt,
  stateDict,
  writePt,
} from "../../../src/formats/pt/index.ts";
import { encode } from "./encode.ts";

const golden = fileURLToPath(new URL("../../golden/pt/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "serac-pt-"));
afterAll(() => rmSync(folder, { recursive: true }));

const floats = (shape: number[], ...values: number[]): PtTensor => memoryTensor("float32", shape, new Uint8Array(Float32Array.from(values).buffer));

test.each(["values", "tensors", "state-dict", "values-legacy", "tensors-legacy"].map((name) => ({ name })))(
  "$name: what is written is read again, with strides and shared elements",
  ({ name }) => {
    const { value } = parsePt(readFileSync(`${golden}${name}.pt`));
    if (value instanceof Map) value.delete("array"); // an array of NumPy's is not written
    expect(encode(parsePt(serializePt(value)).value)).toEqual(encode(value));
  },
);

test("zip64 fields are read as the others", () => {
  const { value } = parsePt(readFileSync(`${golden}tensors.pt`));
  expect(encode(parsePt(serializePt(value, { wide: 8 })).value)).toEqual(encode(value));
});

test("elements begin at multiples of 64 bytes", () => {
  const bytes = Buffer.from(serializePt(ptDict({ a: floats([1], 12345.5), b: floats([1], 54321.5) }), { name: "odd name" }));
  const pattern = Buffer.alloc(4);
  for (const value of [12345.5, 54321.5]) {
    pattern.writeFloatLE(value);
    expect(bytes.indexOf(pattern) % 64).toBe(0);
  }
});

const leaf: fc.Arbitrary<PtValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.double(),
  fc.bigInt(),
  fc.string({ unit: "binary" }),
  fc.uint8Array({ maxLength: 9 }),
  fc.array(fc.float(), { maxLength: 6 }).map((values) => floats([values.length], ...values)),
);
const tree = fc.letrec<{ value: PtValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    leaf,
    fc.array(tie("value"), { maxLength: 5 }),
    fc.array(tie("value"), { maxLength: 5 }).map((items) => new PyTuple(items)),
    fc.array(fc.tuple(fc.oneof(fc.string(), fc.bigInt()), tie("value")), { maxLength: 5 }).map((entries): PtValue => new Map(entries as [PtValue, PtValue][])),
  ),
})).value;

test("any value comes back", () => {
  fc.assert(
    fc.property(tree, (value) => {
      expect(encode(parsePt(serializePt(value)).value)).toEqual(encode(value));
    }),
  );
});

test("lists may contain themselves", () => {
  const list: PtValue[] = [1n];
  list.push(list);
  const read = parsePt(serializePt(list)).value as PtValue[];
  expect(read[1]).toBe(read);
});

test("a file appears whole or not at all, and nothing is left beside it", () => {
  const path = join(folder, "model.pt");
  writePt(path, stateDict([["w", floats([2], 1, 2)]]));
  const before = readFileSync(path);
  expect(() => writePt(path, ptDict({ a: new PyPlaceholder(null, []) }))).toThrow(expect.objectContaining({ code: "PT_UNWRITABLE_VALUE" }));
  expect(readFileSync(path).equals(before)).toBe(true);
  expect(readdirSync(folder)).toEqual(["model.pt"]);
  const file = openPt(path);
  expect(file.value).toBeInstanceOf(OrderedDict);
  file.close();
});

test("a changed byte of a tensor is found by its checksum when the tensor is read", () => {
  const bytes = Buffer.from(serializePt(ptDict({ w: floats([2], 12345.5, 2) })));
  const pattern = Buffer.alloc(4);
  pattern.writeFloatLE(12345.5);
  const at = bytes.indexOf(pattern);
  bytes[at] = (bytes[at] as number) ^ 1;
  const tensor = (parsePt(bytes).value as PtDict).get("w") as PtTensor;
  expect(() => tensor.bytes()).toThrow(expect.objectContaining({ code: "PT_BAD" }));
});

test("the checksum without Node's own is the same", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (a, b) => {
      expect(tableCrc32(b, tableCrc32(a))).toBe(crc32(Buffer.concat([a, b])));
    }),
  );
});

const pickled = (...bytes: (number | string)[]): Uint8Array => {
  // A whole file around a pickle: written with a placeholder of the same length.
  const pickle = Buffer.concat(bytes.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from([part]))));
  const magic = Buffer.from("80028a0a6cfc9c46f9206aa850192e80024de9032e80027d2e", "hex");
  return Buffer.concat([magic, pickle]);
};

test("the allow-list is all that is made: a call of os.system is a placeholder, and nothing runs", () => {
  const marker = join(folder, "ran");
  const { value } = parsePt(Buffer.concat([pickled(0x80, 2, "cos\nsystem\n", 0x58, marker.length + 6, 0, 0, 0, `touch ${marker}`, 0x85, "R."), Buffer.from("80025d2e", "hex")]));
  expect(value).toBeInstanceOf(PyPlaceholder);
  expect((value as PyPlaceholder).name).toBe("os.system");
  expect(readdirSync(folder)).not.toContain("ran");
});

test.each([
  ["an empty file", Buffer.alloc(0), "PT_BAD"],
  ["a text", Buffer.from("hello, world"), "PT_BAD"],
  ["a pickle that ends early", pickled(0x80, 2, "]"), "PT_TRUNCATED"],
  ["a reference to nothing", pickled(0x80, 2, "h", 3, "."), "PT_BAD"],
  ["a string longer than the file", pickled(0x80, 2, "X", 255, 255, 255, 0, "."), "PT_TRUNCATED"],
  ["a string of 4 GiB", pickled(0x80, 2, "X", 255, 255, 255, 255, "."), "PT_TOO_LARGE"],
  ["a huge integer", pickled(0x80, 2, 0x8b, 0, 0, 0, 16, "."), "PT_TOO_LARGE"],
  ["an operand that is not there", pickled(0x80, 2, "R."), "PT_BAD"],
  ["protocol 9", pickled(0x80, 9, "N."), "PT_UNSUPPORTED"],
])("%s is a coded error", (_, bytes, code) => {
  expect(() => parsePt(bytes)).toThrow(expect.objectContaining({ code }));
});

test("calls that copy the same long list again and again are stopped", () => {
  const list = `(${"N".repeat(60_000)}l`; // LIST
  const many = "ccollections\nOrderedDict\nq\x01c__builtin__\nset\nq\x02";
  const calls = "h\x02h\x00\x85R0".repeat(2000);
  expect(() => parsePt(pickled(0x80, 2, list, "q\x00", many, calls, "N."))).toThrow(expect.objectContaining({ code: "PT_TOO_LARGE" }));
});

test("a file that was cut off anywhere is a coded error", () => {
  const whole = serializePt(ptDict({ w: floats([40], ...new Array(40).fill(1)) }));
  for (let length = 0; length < whole.length; length += 7)
    expect(() => parsePt(whole.subarray(0, length)), `${length} bytes`).toThrow(expect.objectContaining({ code: expect.stringMatching(/^PT_/) }));
});

test("members that overlap are refused", () => {
  const bytes = Buffer.from(serializePt(ptDict({ a: floats([1], 1), b: floats([1], 2) })));
  // The directory's entry of the second tensor gets the place of the first.
  const entries: number[] = [];
  for (let at = bytes.indexOf("PK\x01\x02", 0, "latin1"); at >= 0; at = bytes.indexOf("PK\x01\x02", at + 1, "latin1")) entries.push(at);
  bytes.copy(bytes, (entries[2] as number) + 42, (entries[1] as number) + 42, (entries[1] as number) + 46);
  expect(() => parsePt(bytes)).toThrow(expect.objectContaining({ code: "PT_BAD" }));
});

test("a tensor beyond its storage, and one that repeats an element without end, are refused", () => {
  const storage = floats([2], 1, 2).storage;
  expect(() => new PtTensor(storage, { dtype: "float32", shape: [3], strides: [1], offset: 0 })).toThrow(expect.objectContaining({ code: "PT_BAD" }));
  expect(() => new PtTensor(storage, { dtype: "float32", shape: [2 ** 40], strides: [0], offset: 0 }).bytes()).toThrow(expect.objectContaining({ code: "PT_TOO_LARGE" }));
  expect(() => new PtTensor(storage, { dtype: "float32", shape: [2 ** 40, 2 ** 40], strides: [0, 0], offset: 0 })).toThrow(expect.objectContaining({ code: "PT_BAD" }));
});

test("a folder is no checkpoint, and a missing file is named", () => {
  expect(() => openPt(folder)).toThrow(expect.objectContaining({ code: "FILE_UNREADABLE" }));
  expect(() => openPt(join(folder, "none.pt"))).toThrow(expect.objectContaining({ code: "FILE_MISSING" }));
  writeFileSync(join(folder, "short.pt"), "PK\x03\x04");
  expect(() => openPt(join(folder, "short.pt"))).toThrow(expect.objectContaining({ code: "PT_TRUNCATED" }));
  rmSync(join(folder, "short.pt"));
});
