import fc from "fast-check";
import { expect, test } from "vitest";
import { PackedTexts } from "../../../src/data/lineIndex/index.ts";

test("every text is found by its number, in any order", () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ unit: "grapheme" }).map((text) => Buffer.from(text.replaceAll("\n", " ")).toString()),
        { maxLength: 300 },
      ),
      fc.array(fc.nat(), { maxLength: 50 }),
      (texts, places) => {
        const packed = new PackedTexts();
        for (const text of texts) packed.push(text);
        expect(packed.length).toBe(texts.length);
        const saved = PackedTexts.from(packed.save(), packed.length);
        if (texts.length > 0) for (const place of places) expect(saved.at(place % texts.length)).toBe(texts[place % texts.length]);
        if (texts.length > 0) for (const place of places) expect(packed.at(place % texts.length)).toBe(texts[place % texts.length]);
      },
    ),
  ));
