import { expect, test } from "vitest";
import { align } from "../../src/text/align.ts";
import { formatAlignment, formatErrorLine, formatErrors, formatRecogs, formatSummary, pythonRepr } from "../../src/text/score.ts";

const words = (s: string) => (s === "" ? [] : s.split(" "));
const utterance = (id: string, ref: string, hyp: string) => ({ id, ref: words(ref), hyp: words(hyp) });
const utterances = [
  utterance("b-2", "FOR THE FIRST DAY SIR I THINK", "FOR THE FIRST DAY I THINK"),
  utterance("a-1", "THE ASSOCIATION OF EDISON ILLUMINATING COMPANIES", "THE ASSOCIATION OF ADDISON'S ILLUMINATING COMPANIES"),
  utterance("c-3", "YES", "OH YES YES"),
];

test("strings as Python's repr writes them", () => {
  expect(pythonRepr("IT")).toBe("'IT'");
  expect(pythonRepr("IT'S")).toBe(`"IT'S"`);
  expect(pythonRepr(`a'b"c`)).toBe(`'a\\'b"c'`);
  expect(pythonRepr('a"b')).toBe(`'a"b'`);
  expect(pythonRepr("a\\b\n\t\u0001\u00a0\u3000é日😀")).toBe("'a\\\\b\\n\\t\\x01\\xa0\\u3000é日😀'");
});

test("recogs are sorted by id, two lines each", () => {
  expect(formatRecogs(utterances)).toBe(
    [
      "a-1:\tref=['THE', 'ASSOCIATION', 'OF', 'EDISON', 'ILLUMINATING', 'COMPANIES']",
      `a-1:\thyp=['THE', 'ASSOCIATION', 'OF', "ADDISON'S", 'ILLUMINATING', 'COMPANIES']`,
      "b-2:\tref=['FOR', 'THE', 'FIRST', 'DAY', 'SIR', 'I', 'THINK']",
      "b-2:\thyp=['FOR', 'THE', 'FIRST', 'DAY', 'I', 'THINK']",
      "c-3:\tref=['YES']",
      "c-3:\thyp=['OH', 'YES', 'YES']",
      "",
    ].join("\n"),
  );
  expect(formatRecogs([{ id: "x", ref: [], hyp: [] }])).toBe("x:\tref=[]\nx:\thyp=[]\n");
});

test("errs holds rate, details and tables as icefall writes them", () => {
  const report = formatErrors(utterances);
  expect(report).toMatchObject({ insertions: 2, deletions: 1, substitutions: 1, correct: 12, words: 14, percent: 28.57 });
  expect(report.text).toBe(`%WER = 28.57
Errors: 2 insertions, 1 deletions, 1 substitutions, over 14 reference words (12 correct)
Search below for sections starting with PER-UTT DETAILS:, SUBSTITUTIONS:, DELETIONS:, INSERTIONS:, PER-WORD STATS:

PER-UTT DETAILS: corr or (ref->hyp)  
a-1:\tTHE ASSOCIATION OF (EDISON->ADDISON'S) ILLUMINATING COMPANIES
b-2:\tFOR THE FIRST DAY (SIR->*) I THINK
c-3:\t(*->OH) YES (*->YES)

SUBSTITUTIONS: count ref -> hyp
1   EDISON -> ADDISON'S

DELETIONS: count ref
1   SIR

INSERTIONS: count hyp
1   YES
1   OH

PER-WORD STATS: word  corr tot_errs count_in_ref count_in_hyp
YES   1 1 1 2
SIR   0 1 1 0
OH   0 1 0 1
EDISON   0 1 1 0
ADDISON'S   0 1 0 1
THINK   1 0 1 1
THE   2 0 2 2
OF   1 0 1 1
ILLUMINATING   1 0 1 1
I   1 0 1 1
FOR   1 0 1 1
FIRST   1 0 1 1
DAY   1 0 1 1
COMPANIES   1 0 1 1
ASSOCIATION   1 0 1 1
`);
  expect(formatErrorLine("test-clean-greedy_search", report)).toBe("[test-clean-greedy_search] %WER 28.57% [4 / 14, 2 ins, 1 del, 1 sub ]");
});

test("neighbouring errors merge into one", () => {
  expect(formatAlignment(align(words("a b c d"), words("a x d e")))).toBe("a (b c->x) d (*->e)");
  expect(formatAlignment(align(words("a b"), words("c")))).toBe("(a b->c)");
  expect(formatAlignment([])).toBe("");
});

test("a rate over no word is shown as a dash", () => {
  expect(formatErrors([])).toMatchObject({ percent: undefined, words: 0 });
  const report = formatErrors([utterance("a", "", "x")]);
  expect(report.text).toMatch(/^%WER = -\n/);
  expect(formatErrorLine("a", report)).toBe("[a] %WER - [1 / 0, 1 ins, 0 del, 0 sub ]");
  expect(formatSummary({ beam: report.percent, greedy: 1 })).toBe("settings\tWER\ngreedy\t1.0\nbeam\t-\n");
});

test("the summary is sorted by rate", () => {
  expect(formatSummary({ beam_4: 2.5, greedy_search: 3, beam_8: 2.23 })).toBe("settings\tWER\nbeam_8\t2.23\nbeam_4\t2.5\ngreedy_search\t3.0\n");
});
