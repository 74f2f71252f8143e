import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expandBraces, splitAtCommas } from "../../src/util/braces.ts";

describe("expandBraces", () => {
  test("ranges: both directions, steps, padding to the wider end, letters", () => {
    expect(expandBraces("a{0..3}.tar")).toEqual(["a0.tar", "a1.tar", "a2.tar", "a3.tar"]);
    expect(expandBraces("{07..10}")).toEqual(["07", "08", "09", "10"]);
    expect(expandBraces("{8..010}")).toEqual(["008", "009", "010"]);
    expect(expandBraces("{1..10..4}")).toEqual(["1", "5", "9"]);
    expect(expandBraces("{10..1..-4}")).toEqual(["10", "6", "2"]);
    expect(expandBraces("{2..-1}")).toEqual(["2", "1", "0", "-1"]);
    expect(expandBraces("{-01..1}")).toEqual(["-01", "000", "001"]);
    expect(expandBraces("{3..3}")).toEqual(["3"]);
    expect(expandBraces("{1..3..0}")).toEqual(["1", "2", "3"]);
    expect(expandBraces("{a..g..2}")).toEqual(["a", "c", "e", "g"]);
    expect(expandBraces("{c..a}")).toEqual(["c", "b", "a"]);
    expect(expandBraces("{Y..b}")).toEqual(["Y", "Z", "a", "b"]);
  });

  test("lists, empty items, nesting, and products with the rightmost fastest", () => {
    expect(expandBraces("{a,b}{1,2}")).toEqual(["a1", "a2", "b1", "b2"]);
    expect(expandBraces("index.html{,.backup}")).toEqual(["index.html", "index.html.backup"]);
    expect(expandBraces("p{2.{5..7},3}")).toEqual(["p2.5", "p2.6", "p2.7", "p3"]);
    expect(expandBraces("{a,b{1..2}c}")).toEqual(["a", "b1c", "b2c"]);
    expect(expandBraces("")).toEqual([""]);
  });

  test("NeMo's spellings may be mixed", () => {
    for (const pattern of ["x_OP_0..2_CL_", "x(0..2)", "x[0..2]", "x<0..2>", "x_OP_0..2}", "x{0..2_CL_"]) expect(expandBraces(pattern)).toEqual(["x0", "x1", "x2"]);
    expect(expandBraces("_OP_a,b_CL_/audio__OP_0..1_CL_.tar")).toEqual(["a/audio_0.tar", "a/audio_1.tar", "b/audio_0.tar", "b/audio_1.tar"]);
  });

  test("brackets that hold neither a range nor a list stay as they are, and what is in them is expanded", () => {
    expect(expandBraces("/data (v1)/[x]/a{0..1}<y>")).toEqual(["/data (v1)/[x]/a0<y>", "/data (v1)/[x]/a1<y>"]);
    expect(expandBraces("({0..1}x)")).toEqual(["(0x)", "(1x)"]);
    expect(expandBraces("{x}")).toEqual(["{x}"]);
    expect(expandBraces("{}")).toEqual(["{}"]);
    expect(expandBraces("a(b/x{0..1}")).toEqual(["a(b/x0", "a(b/x1"]);
    expect(expandBraces("a)b/x{0..1}")).toEqual(["a)b/x0", "a)b/x1"]);
    expect(expandBraces("{1..b}")).toEqual(["{1..b}"]);
  });

  test("a backslash makes a bracket or a comma an ordinary character", () => {
    expect(expandBraces("/d/\\[2020,2021\\]/a{0..1}")).toEqual(["/d/[2020,2021]/a0", "/d/[2020,2021]/a1"]);
    expect(expandBraces("{a\\,b,c}")).toEqual(["a,b", "c"]);
    expect(expandBraces("a\\\\b\\c")).toEqual(["a\\b\\c"]);
  });

  test("a brace without its partner, and too many results, are refused with the place", () => {
    expect(() => expandBraces("a{0..3")).toThrow(/a\{0\.\.3: the \{ at character 2 has no partner \[SHARDS_BAD_PATTERN\]/);
    expect(() => expandBraces("a0..3_CL_")).toThrow(/the _CL_ at character 6 has no partner/);
    expect(() => expandBraces("{0..99999999999}")).toThrow(/SHARDS_BAD_PATTERN/);
    expect(() => expandBraces("{0..9999}{0..9999}")).toThrow(/more than 1000000 paths/);
  });

  test("any text either expands or is refused with its code, quickly", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("{", "}", "(", ")", "[", "]", "<", ">", ",", "..", "1", "09", "a", "-", "_OP_", "_CL_", "\\", "/")), (parts) => {
        const text = parts.join("");
        try {
          expect(expandBraces(text).length).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toMatchObject({ code: "SHARDS_BAD_PATTERN" });
        }
      }),
      { numRuns: 2000 },
    );
  });

  test("text without brackets is itself", () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !/[\\{}()[\]<>]|_OP_|_CL_/.test(text)),
        (text) => {
          expect(expandBraces(text)).toEqual([text]);
        },
      ),
    );
  });
});

test("splitAtCommas parts only outside of brackets", () => {
  expect(splitAtCommas("a_{0,1}.json, b(x,y).json,c")).toEqual(["a_{0,1}.json", "b(x,y).json", "c"]);
  expect(splitAtCommas("a(b,c")).toEqual(["a(b", "c"]);
  expect(splitAtCommas("a,,")).toEqual(["a", "", ""]);
});
