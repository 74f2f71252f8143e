import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compressLilcom, decompressLilcom, lilcomShape } from "../../src/formats/lilcom.ts";

interface Case {
  shape: number[];
  tick: number;
  regression: boolean;
  input: string;
  bytes: string;
  output: string;
}
const cases = Object.entries(JSON.parse(readFileSync(new URL("../golden/lilcom.json", import.meta.url), "utf8")) as Record<string, Case>);
const bytesOf = (base64: string): Uint8Array => new Uint8Array(Buffer.from(base64, "base64"));
const floats = (base64: string): Float32Array => new Float32Array(bytesOf(base64).buffer);

describe("lilcom", () => {
  test.each(cases)("decompresses what lilcom 1.8 compressed, bit for bit: %s", (_, { shape, bytes, output }) => {
    const result = decompressLilcom(bytesOf(bytes));
    expect(result.shape).toEqual(shape);
    expect(result.data).toEqual(floats(output));
    expect(lilcomShape(bytesOf(bytes))).toEqual(shape);
  });

  test.each(cases)("compresses to the same bytes as lilcom 1.8: %s", (_, { shape, tick, regression, input, bytes }) => {
    expect(Buffer.from(compressLilcom({ shape, data: floats(input) }, { tickPower: tick, regression })).toString("base64")).toBe(bytes);
  });

  test("what is compressed comes back within half a tick, whatever the shape", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 4 }),
        fc.integer({ min: -8, max: 2 }),
        fc.boolean(),
        fc.infiniteStream(fc.oneof(fc.constant(0), fc.float({ min: -1000, max: 1000, noNaN: true }))),
        (shape, tickPower, regression, stream) => {
          const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
          for (let i = 0; i < data.length; i++) data[i] = stream.next().value as number;
          const bytes = compressLilcom({ shape, data }, { tickPower, regression });
          const back = decompressLilcom(bytes);
          expect(back.shape).toEqual(shape);
          // Half a tick, and what float32 rounds of values up to a thousand.
          back.data.forEach((value, i) => expect(Math.abs(value - (data[i] as number))).toBeLessThanOrEqual(2 ** tickPower / 2 + 2e-4));
        },
      ),
      { numRuns: 200 },
    );
  });

  test("damaged, cut and lengthened data is a coded error, never a hang", () => {
    const good = bytesOf((cases[0] as [string, Case])[1].bytes);
    const refused = (bytes: Uint8Array): void => expect(() => decompressLilcom(bytes, "feats.lca:0")).toThrow(/feats\.lca:0: .*\[LILCOM_BAD\]/);
    refused(new Uint8Array(0));
    refused(Buffer.from("XY"));
    refused(Uint8Array.of(0x4c, 9, 1, 2, 3));
    refused(good.subarray(0, good.length - 1));
    refused(Buffer.concat([good, Buffer.from([0])]));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        try {
          decompressLilcom(Buffer.concat([Buffer.from([0x4c, 0]), bytes]));
        } catch (error) {
          expect(String(error)).toContain("LILCOM_BAD");
        }
      }),
    );
  });

  test("what cannot be compressed is refused", () => {
    expect(() => compressLilcom({ shape: [2], data: Float32Array.of(1, Number.NaN) })).toThrow(/element 1 is NaN/);
    expect(() => compressLilcom({ shape: [0, 3], data: new Float32Array(0) })).toThrow(/LILCOM_BAD/);
    expect(() => compressLilcom({ shape: [3], data: new Float32Array(2) })).toThrow(/LILCOM_BAD/);
    expect(() => compressLilcom({ shape: [1], data: new Float32Array(1) }, { tickPower: 30 })).toThrow(/2\^30/);
  });
});
