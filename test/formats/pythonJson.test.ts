import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dumpPython, JsonSyntaxError, mayBeTooDeep, PyNumber, parsePython, plainValue, pyFloat, pythonFloat } from "../../src/formats/pythonJson.ts";

describe("dumpPython after parsePython", () => {
  // Right: what CPython 3.11 gives for json.dumps(json.loads(left), ensure_ascii=False).
  test.each([
    ["1.0", "1.0"],
    ["1", "1"],
    ["-0", "0"],
    ["-0.0", "-0.0"],
    ["1e5", "100000.0"],
    ["1E-5", "1e-05"],
    ["0.0001", "0.0001"],
    ["0.00001", "1e-05"],
    ["1e15", "1000000000000000.0"],
    ["1e16", "1e+16"],
    ["123456789012345678", "123456789012345678"],
    ["1e22", "1e+22"],
    ["1e-7", "1e-07"],
    ["12345678901234567890123", "12345678901234567890123"],
    ["1e999", "Infinity"],
    ["-1e999", "-Infinity"],
    ["NaN", "NaN"],
    ["[Infinity, -Infinity]", "[Infinity, -Infinity]"],
    ["1.7976931348623157e308", "1.7976931348623157e+308"],
    ["5e-324", "5e-324"],
    ["0.1", "0.1"],
    ["100.50", "100.5"],
    ["3.0e0", "3.0"],
    ["2.5E+3", "2500.0"],
    ["9007199254740993", "9007199254740993"],
    ["9007199254740991", "9007199254740991"],
    ["0.30000000000000004", "0.30000000000000004"],
    ["1.2345678901234567e16", "1.2345678901234568e+16"],
    ["123456789012345.678", "123456789012345.67"],
    ['{"b":1,"0":2.0,"a":{"x":[]},"b":3}', '{"b": 3, "0": 2.0, "a": {"x": []}}'],
    ['"\\u00e9\\u2028\\ud83d\\ude00\\u0001\\u007f\\/\\b\\f"', '"\u00e9\u2028\ud83d\ude00\\u0001\u007f/\\b\\f"'],
    ['{"": null, "t": true,"__proto__": [1 , 2]}', '{"": null, "t": true, "__proto__": [1, 2]}'],
    [" [ ] ", "[]"],
  ])("%s is %s, as in Python", (text, expected) => {
    expect(dumpPython(parsePython(text))).toBe(expected);
  });

  test("writing what was written changes nothing, and the values are JSON.parse's", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const once = dumpPython(parsePython(text));
        expect(dumpPython(parsePython(once))).toBe(once);
        expect(JSON.stringify(plainValue(parsePython(text)))).toBe(JSON.stringify(JSON.parse(text)));
      }),
      { numRuns: 500 },
    );
  });

  test("keys keep their order and numbers their value, whatever they are", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(fc.string(), fc.double()), { selector: ([key]) => key }), (members) => {
        const text = `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${pythonFloat(value)}`).join(", ")}}`;
        const object = parsePython(text) as Map<string, number | PyNumber>;
        expect([...object.keys()]).toEqual(members.map(([key]) => key));
        for (const [key, value] of members) expect(Number(object.get(key) instanceof PyNumber ? (object.get(key) as PyNumber).value : object.get(key))).toBe(value);
        expect(dumpPython(object)).toBe(text);
      }),
    );
  });

  test("plain objects and numbers are written too; half a surrogate pair is escaped", () => {
    expect(dumpPython({ a: 2, b: pyFloat(2), c: 0.5, d: undefined, e: ["\ud800"], f: 2 ** 60 })).toBe('{"a": 2, "b": 2.0, "c": 0.5, "e": ["\\ud800"], "f": 1.152921504606847e+18}');
  });
});

test.each([
  ['{"a": }', 6],
  ['{"a" 1}', 5],
  ['{"a": 1', 7],
  ['{"a": "b', 8],
  ['{"a": "\\x"}', 7],
  ['"a\nb"', 2],
  ["[1,]", 3],
  ["01", 1],
  ["nan", 0],
  ["", 0],
  ["1 2", 2],
  ["'a'", 0],
])("%j is no JSON from character %i on", (text, index) => {
  let found: unknown;
  try {
    parsePython(text);
  } catch (error) {
    found = error;
  }
  expect(found).toBeInstanceOf(JsonSyntaxError);
  expect((found as JsonSyntaxError).index).toBe(index);
});

test("agrees with JSON.parse on what is JSON; depth and length are no danger", () => {
  const pieces = fc.array(fc.constantFrom("{", "}", "[", "]", '"a"', ":", ",", "1", "-", ".5", "e3", "true", "nul", " ", '"', "\\u12", "\\n", "\\", "\t"), { maxLength: 12 });
  fc.assert(
    fc.property(
      fc.oneof(
        pieces.map((parts) => parts.join("")),
        fc.string(),
      ),
      (text) => {
        const works = (parse: (text: string) => unknown): boolean => {
          try {
            parse(text);
            return true;
          } catch {
            return false;
          }
        };
        expect(works(parsePython)).toBe(works(JSON.parse));
      },
    ),
    { numRuns: 3000 },
  );
  expect(() => parsePython("[".repeat(1_000_000))).toThrow("nested too deep");
  expect(() => parsePython(`"${"a\\".repeat(1_000_000)}`)).toThrow(JsonSyntaxError);
  expect((parsePython(`"${"a".repeat(5_000_000)}"`) as string).length).toBe(5_000_000);
});

test("what parsePython finds too deep may be too deep, and nothing that is clearly not", () => {
  const wrap = fc.array(fc.constantFrom("[", '{"k":', '["]", ', '{"\\"[": 1, "k":'), { minLength: 985, maxLength: 996 });
  fc.assert(
    fc.property(wrap, (openers) => {
      const depth = openers.length; // of the number in the middle
      const text =
        openers.join("") +
        "1" +
        [...openers]
          .reverse()
          .map((opener) => (opener.startsWith("[") ? "]" : "}"))
          .join("");
      JSON.parse(text);
      let refused = false;
      try {
        parsePython(text);
      } catch (error) {
        expect(String(error)).toContain("nested too deep");
        refused = true;
      }
      expect(refused).toBe(depth > 990);
      expect(mayBeTooDeep(text)).toBe(depth > 990);
    }),
    { numRuns: 60 },
  );
  expect(mayBeTooDeep(`${"[".repeat(5000)}"`)).toBe(true);
  expect(mayBeTooDeep(`"${"x".repeat(5000)}`)).toBe(false);
});
