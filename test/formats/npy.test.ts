import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseNpy, serializeNpy } from "../../src/formats/npy.ts";

interface Case {
  shape: number[];
  bytes: string;
  values: number[];
}
const cases = Object.entries(JSON.parse(readFileSync(new URL("../golden/npy.json", import.meta.url), "utf8")) as Record<string, Case>);

describe("npy", () => {
  test.each(cases)("reads what numpy.save wrote, row-major: %s", (_, { shape, bytes, values }) => {
    const array = parseNpy(Buffer.from(bytes, "base64"));
    expect(array.shape).toEqual(shape);
    expect([...array.data]).toEqual(values);
  });

  test("writes the bytes of numpy.save", () => {
    for (const [name, { bytes }] of cases.filter(([name]) => name === "float32" || name === "line")) {
      const array = parseNpy(Buffer.from(bytes, "base64"));
      expect(Buffer.from(serializeNpy(array)).toString("base64"), name).toBe(bytes);
    }
  });

  test("what is none, is cut, or holds objects is a coded error", () => {
    const good = Buffer.from((cases[0] as [string, Case])[1].bytes, "base64");
    for (const bytes of [Buffer.from(""), Buffer.from("no npy file at all"), good.subarray(0, 40), good.subarray(0, good.length - 1)])
      expect(() => parseNpy(bytes, "a.npy")).toThrow(/^a\.npy: .*\[NPY_BAD\]/);
    const objects = Buffer.from(good);
    objects.write("|O ", good.indexOf("<f4"), "latin1");
    expect(() => parseNpy(objects)).toThrow(/NPY_BAD/);
  });
});
