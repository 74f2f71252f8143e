import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pythonFloat } from "../../../src/formats/pythonNumber.ts";
import { decodeSurrogateEscape, encodeSurrogateEscape, hasEscapedBytes, toFsPath } from "../../../src/formats/surrogateEscape.ts";
import { applyPaxRecords, blockSize, isZeroBlock, paddedSize, parsePaxRecords, parseTarHeader, type TarHeader, tarTypes } from "../../../src/formats/tar/header.ts";
import { fileHeaderSize, printFileHeader, printTarHeader } from "../../../src/formats/tar/printHeader.ts";

const plain: TarHeader = { name: "a.wav", mode: 0o644, uid: 0, gid: 0, size: 0, mtime: 0, type: tarTypes.file, linkName: "", userName: "", groupName: "" };

/** Reads what `printTarHeader` wrote, as a reader of archives does. */
function readBack(bytes: Buffer): TarHeader {
  let at = 0;
  let records = new Map<string, string>();
  let longName: string | undefined;
  let longLink: string | undefined;
  for (;;) {
    const header = parseTarHeader(bytes.subarray(at, at + blockSize), "test");
    at += blockSize;
    const data = bytes.subarray(at, at + header.size);
    if (header.type === tarTypes.paxHeader) records = parsePaxRecords(data, "test");
    else if (header.type === tarTypes.gnuLongName) longName = decodeSurrogateEscape(data.subarray(0, -1));
    else if (header.type === tarTypes.gnuLongLink) longLink = decodeSurrogateEscape(data.subarray(0, -1));
    else {
      expect(at).toBe(bytes.length);
      const { format: _, ...rest } = header;
      const result = applyPaxRecords(rest, records, "test");
      return { ...result, name: longName ?? result.name, linkName: longLink ?? result.linkName };
    }
    at += paddedSize(header.size);
  }
}

const name = fc.string({ unit: "binary", minLength: 1, maxLength: 300 }).filter((text) => !text.includes("\0"));
const header = fc.record({
  name,
  mode: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.integer({ min: 0, max: 2 ** 31 }),
  gid: fc.integer({ min: 0, max: 2 ** 31 }),
  size: fc.integer({ min: 0, max: 2 ** 45 }),
  mtime: fc.integer({ min: -1000, max: 2 ** 34 }),
  type: fc.constantFrom("0", "1", "2", "5"),
  linkName: fc.oneof(fc.constant(""), name),
  userName: fc.oneof(
    fc.constant(""),
    name.filter((text) => Buffer.byteLength(text) < 32),
  ),
  groupName: fc.constant("staff"),
});

describe("tar headers", () => {
  test("PAX and GNU headers read back as they were written", () => {
    fc.assert(
      fc.property(header, fc.constantFrom("pax" as const, "gnu" as const), (value, format) => {
        expect(readBack(printTarHeader(value, { format }))).toEqual(value);
      }),
    );
  });

  test("the short way of writing a file's headers gives the same bytes, or leaves it to the long one", () => {
    const into = Buffer.alloc(fileHeaderSize + 7);
    let short = 0;
    const file = fc.record({
      name: fc.oneof(fc.string({ minLength: 1, maxLength: 120 }), fc.constant("ü"), fc.constant("n".repeat(100))),
      mode: fc.integer({ min: 0, max: 0o7777 }),
      uid: fc.constantFrom(0, 1000, 8 ** 7 - 1, 8 ** 7),
      gid: fc.constantFrom(0, 1000, 8 ** 7),
      size: fc.oneof(fc.nat(), fc.constantFrom(8 ** 11 - 1, 8 ** 11)),
      mtime: fc.oneof(fc.double({ min: 0, max: 2e9, noNaN: true }), fc.constantFrom(-1.5, 0, 0.5, 1.5, 1e-7, 1700000000, 8 ** 11 - 0.5)),
      userName: fc.constantFrom("", "root", "u".repeat(33), "jürgen"),
      groupName: fc.constantFrom("", "staff"),
    });
    fc.assert(
      fc.property(file, (values) => {
        const value = { ...values, type: tarTypes.file, linkName: "" };
        const expected = printTarHeader(value, { floatTime: true });
        into.fill(0xaa);
        const written = printFileHeader(into, 3, value);
        if (written === 0) return;
        short++;
        expect(into.subarray(3, 3 + written).equals(expected)).toBe(true);
        expect([into[2], into[3 + written]]).toEqual([0xaa, 0xaa]);
      }),
      { numRuns: 400 },
    );
    expect(short).toBeGreaterThan(20);
  });

  test("ustar splits long names at a slash and refuses what it cannot hold", () => {
    const long = { ...plain, name: `${"d".repeat(120)}/${"f".repeat(80)}` };
    expect(readBack(printTarHeader(long, { format: "ustar" }))).toEqual(long);
    expect(() => printTarHeader({ ...plain, name: "x".repeat(101) }, { format: "ustar" })).toThrow(/TAR_BAD/);
    expect(() => printTarHeader({ ...plain, size: 8 ** 11 }, { format: "ustar" })).toThrow(/TAR_BAD/);
  });

  test("a damaged header is an error with its place, never another member", () => {
    fc.assert(
      fc.property(header, fc.integer({ min: 0, max: blockSize - 1 }), fc.integer({ min: 1, max: 255 }), (value, position, change) => {
        const bytes = printTarHeader({ ...value, name: "x.wav", linkName: "", uid: 1, gid: 1, size: 5, mtime: 7, userName: "u" });
        const damaged = Buffer.from(bytes);
        damaged[position] = (damaged[position] as number) ^ change;
        // The checksum is a sum: spaces and NULs inside its own field do not change it.
        if (position >= 148 && position < 156) return;
        expect(() => parseTarHeader(damaged, "x.tar:0")).toThrow(/x\.tar:0: .*TAR_BAD/);
      }),
    );
    expect(() => parseTarHeader(Buffer.alloc(100), "x.tar:0")).toThrow(/TAR_TRUNCATED/);
  });

  test("PAX records that lie about their length are refused", () => {
    for (const text of ["5 a=b", "99 a=b\n", "x a=b\n", "3 \n", "4 a\n", "0 a=b\n", "-6 a=b\n"])
      expect(() => parsePaxRecords(Buffer.from(text), "here"), text).toThrow(/here: .*TAR_BAD/);
    expect(() => applyPaxRecords(plain, new Map([["size", "-1"]]), "here")).toThrow(/TAR_BAD/);
    expect(parsePaxRecords(Buffer.from("6 a=b\n\0\0"), "here")).toEqual(new Map([["a", "b"]]));
  });

  test("version 7, signed checksums and binary numbers are read", () => {
    const bytes = printTarHeader({ ...plain, name: "old", size: 3 });
    bytes.fill(0, 257, 265); // no magic
    bytes[156] = 0; // no type
    bytes.fill(0x20, 148, 156);
    let sum = 0;
    for (const byte of bytes) sum += byte;
    bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    expect(parseTarHeader(bytes, "x")).toMatchObject({ name: "old", size: 3, type: "0", format: "v7" });
    expect(isZeroBlock(bytes)).toBe(false);
    expect(isZeroBlock(Buffer.alloc(512))).toBe(true);
  });
});

describe("names that are not UTF-8", () => {
  test("any bytes survive, and only those that need it hold surrogates", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        const text = decodeSurrogateEscape(bytes);
        expect(Buffer.from(encodeSurrogateEscape(text)).equals(Buffer.from(bytes))).toBe(true);
        expect(typeof toFsPath(text)).toBe(hasEscapedBytes(text) ? "object" : "string");
      }),
    );
    expect(decodeSurrogateEscape(Buffer.from([0x61, 0xff, 0x62]))).toBe("a\udcffb");
  });
});

describe("Python's numbers", () => {
  test("floats are spelled as repr() spells them", () => {
    const pairs: [number, string][] = [
      [0, "0.0"],
      [-0, "-0.0"],
      [12, "12.0"],
      [12.34, "12.34"],
      [1e-4, "0.0001"],
      [1e-5, "1e-05"],
      [1.5e-7, "1.5e-07"],
      [1e16, "1e+16"],
      [123456789012345680, "1.2345678901234568e+17"],
      [9999999999999998, "9999999999999998.0"],
      [1e22, "1e+22"],
      [5e-324, "5e-324"],
      [1e100, "1e+100"],
      [0.1 + 0.2, "0.30000000000000004"],
      [1700000000.1234567, "1700000000.1234567"],
      [Number.NaN, "nan"],
      [Number.NEGATIVE_INFINITY, "-inf"],
    ];
    for (const [value, text] of pairs) expect(pythonFloat(value)).toBe(text);
    fc.assert(fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => Object.is(Number(pythonFloat(value)), value)));
  });
});
