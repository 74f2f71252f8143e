import { describe, expect, test } from "vitest";
import type { Report, ResultRow } from "../../demo/report.ts";
import { curveText, reportHtml, reportText, tableText, transcriptsText, wordErrorRate } from "../../demo/report.ts";

const synthetic: ResultRow = {
  name: "voices held out",
  speech: "synthetic",
  speakers: 4,
  recordings: 560,
  utterances: 560,
  words: 2800,
  substitutions: 30,
  deletions: 10,
  insertions: 2,
};
const human: ResultRow = { ...synthetic, name: "<b>a person</b>", speech: "human", speakers: 1, recordings: 10, utterances: 100, words: 500, substitutions: 50 };

const report: Report = {
  title: "Spoken digits",
  rows: [synthetic, human],
  curve: [
    { epoch: 1, trainLoss: 2, validLoss: 1.5, validWer: 90 },
    { epoch: 2, trainLoss: 1, validLoss: 0.75 },
    { epoch: 3, trainLoss: 0.5, validLoss: 0.25, validWer: 10 },
  ],
  transcripts: [
    {
      audio: "a.wav",
      speech: "human",
      reference: "three one",
      words: [
        { word: "three", start: 0.12 },
        { word: "nine", start: 0.61 },
      ],
    },
  ],
  next: ["bin/serac transcribe a.wav"],
};

describe("the demo's report", () => {
  test("the error rate counts all three kinds of errors", () => {
    expect(wordErrorRate(synthetic)).toBeCloseTo(1.5);
    expect(wordErrorRate({ ...synthetic, words: 0 })).toBe(Infinity);
    expect(wordErrorRate({ ...synthetic, words: 0, substitutions: 0, deletions: 0, insertions: 0 })).toBe(0);
  });

  test("every row says whether its speech is synthetic or human, and of how many recordings", () => {
    const [head, , first, second] = tableText(report.rows).split("\n") as [string, string, string, string];
    expect(head.split(/\s{2,}/)).toEqual(["test set", "speech", "speakers", "recordings", "utterances", "words", "sub", "del", "ins", "WER"]);
    expect(first.split(/\s{2,}/)).toEqual(["voices held out", "synthetic", "4", "560", "560", "2800", "30", "10", "2", "1.50 %"]);
    expect(second.split(/\s{2,}/)).toEqual(["<b>a person</b>", "human", "1", "10", "100", "500", "50", "10", "2", "12.40 %"]);
  });

  test("a falling curve falls in the terminal", () => {
    expect(curveText(report.curve, "validLoss", { width: 6, height: 2 })).toBe("validation loss, epochs 1 to 3\n 1.50 │██\n0.250 │██▇▇▁▁");
    expect(curveText(report.curve, "validLoss", { width: 2, height: 1 }).split("\n")[1]).toMatch(/│.▁$/u);
    expect(curveText([], "validLoss")).toBe("");
    expect(curveText([{ epoch: 1, validLoss: NaN }], "validLoss")).toBe("");
  });

  test("transcripts give the time of every word", () => {
    expect(transcriptsText(report.transcripts)).toBe("a.wav (human)\n  said   three one\n  heard  three nine\n  times  0.12 three  0.61 nine");
  });

  test("the terminal's report holds the curve, the table, the transcripts and the next commands", () => {
    const text = reportText(report);
    for (const part of ["validation loss", "validation WER", "12.40 %", "0.61 nine", "  bin/serac transcribe a.wav"]) expect(text).toContain(part);
  });

  test("the page escapes what it shows, and loads nothing", () => {
    const html = reportHtml(report);
    expect(html).toContain("&lt;b&gt;a person&lt;/b&gt;");
    expect(html).not.toContain("<b>");
    expect(html.match(/<polyline/g)).toHaveLength(3);
    expect(html).not.toMatch(/src=|href=|url\(|@import/);
  });
});
