import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SentencePiece, trainBpe } from "../../src/text/sentencePiece.ts";
import { nativeFolder } from "../../src/util/paths.ts";
import { Random } from "../../src/util/random.ts";

let folder: string;
let model: SentencePiece;
const syllables = ["ka", "lo", "mi", "ter", "un", "so", "re", "pan", "di", "ve"];
const random = new Random(11);
const corpus = Array.from({ length: 400 }, () =>
  Array.from({ length: 6 }, () => Array.from({ length: 1 + random.integer(0, 3) }, () => random.choice(syllables)).join("")).join(" "),
);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-spm-"));
  await trainBpe({ input: corpus, modelPrefix: join(folder, "uni"), vocabSize: 60 });
  model = SentencePiece.load(join(folder, "uni.model"));
});
afterAll(() => rmSync(folder, { recursive: true }));

test("icefall's special ids", () => {
  expect(model.vocabSize).toBe(60);
  expect([0, 1, 2].map((id) => model.idToPiece(id))).toEqual(["<blk>", "<sos/eos>", "<unk>"]);
  expect(model.unkId).toBe(2);
  expect(model.pieceToId("<sos/eos>")).toBe(1);
  expect(model.pieceToId("no such piece")).toBe(2);
  expect([...model.encode("kalo漢")]).toContain(2);
});

test.each([
  ["a manifest", Buffer.from('{"audio_filepath": "a.wav"}\n')],
  ["nothing", Buffer.alloc(0)],
  ["zeros", Buffer.alloc(100)],
  ["half of a model", undefined],
])("a file that is no model is named, with what was expected and what to do: %s", (_, bytes) => {
  const path = join(folder, "no.model");
  writeFileSync(path, bytes ?? model.bytes.subarray(0, model.bytes.length >> 1));
  const wanted = expect.objectContaining({
    code: "TEXT_NOT_A_MODEL",
    at: path,
    message: expect.stringMatching(/no\.model: this is no SentencePiece model.*expected.*\[TEXT_NOT_A_MODEL\]\..*serac bpe train/),
  });
  expect(() => SentencePiece.load(path)).toThrow(wanted);
  expect(() => SentencePiece.load(path)).not.toThrow(expect.objectContaining({ message: expect.stringMatching(/\.cc|\.h\b|\(\d+\)/) }));
});

test("text of the corpus's letters round-trips; pieces and ids agree", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.array(fc.constantFrom(...syllables), { minLength: 1 }).map((s) => s.join("")),
        { maxLength: 8 },
      ),
      (list) => {
        const text = list.join(" ");
        const ids = model.encode(text);
        expect(model.decode(ids)).toBe(text);
        expect(model.encodePieces(text)).toEqual(Array.from(ids, (id) => model.idToPiece(id)));
        expect(model.decode(Array.from(ids))).toBe(text);
      },
    ),
  );
  expect(model.encode("")).toEqual(new Int32Array(0));
});

test("any text encodes, and ids outside of the vocabulary are coded errors", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => void model.encode(text)));
  for (const id of [-1, 60, 2 ** 31 - 1]) expect(() => model.decode([id])).toThrow(expect.objectContaining({ code: "TEXT_BAD_ID" }));
  for (const id of [-1, 60, 0.5, NaN]) expect(() => model.idToPiece(id)).toThrow(expect.objectContaining({ code: "TEXT_BAD_ID" }));
});

test("a file, plain or gzip, trains the same model as its lines; bpe trains as well", async () => {
  writeFileSync(join(folder, "text.txt"), `${corpus.join("\n")}\n`);
  writeFileSync(join(folder, "text.gz"), gzipSync(corpus.join("\n")));
  for (const name of ["text.txt", "text.gz"]) {
    await trainBpe({ input: join(folder, name), outPath: join(folder, "again.model"), vocabSize: 60 });
    expect([...SentencePiece.load(join(folder, "again.model")).encode(corpus[7] as string)]).toEqual([...model.encode(corpus[7] as string)]);
  }
  await trainBpe({ input: corpus, outPath: join(folder, "bpe.model"), vocabSize: 70, type: "bpe", userDefinedSymbols: ["<blk>", "<sos/eos>", "a,b"], unkId: 3 });
  const bpe = SentencePiece.load(join(folder, "bpe.model"));
  expect([bpe.vocabSize, bpe.unkId, bpe.idToPiece(2)]).toEqual([70, 3, "a,b"]);
  expect(bpe.decode(bpe.encode("kalo miter"))).toBe("kalo miter");
});

test("too large and too small vocabularies name the size that works", async () => {
  const train = (vocabSize: number) => trainBpe({ input: corpus, outPath: join(folder, "limit.model"), vocabSize });
  const large = await train(100_000).catch((e) => e);
  expect(large).toMatchObject({ code: "TEXT_VOCAB_TOO_LARGE" });
  const largest = Number(/largest possible is (\d+)/.exec(large.message)?.[1]);
  await train(largest);
  expect(SentencePiece.load(join(folder, "limit.model")).vocabSize).toBe(largest);
  const small = await train(5).catch((e) => e);
  expect(small).toMatchObject({ code: "TEXT_VOCAB_TOO_SMALL" });
  await train(Number(/: (\d+) is the smallest/.exec(small.message)?.[1]) + 1);
});

test("nothing to train on, and bad options, are coded errors that write nothing", async () => {
  const outPath = join(folder, "none", "x.model");
  for (const input of [[], ["", "  ", "\n"]]) await expect(trainBpe({ input, outPath, vocabSize: 50 })).rejects.toMatchObject({ code: "TEXT_TRAIN_NO_INPUT" });
  await expect(trainBpe({ input: join(folder, "missing.txt"), outPath, vocabSize: 50 })).rejects.toMatchObject({ code: "FILE_MISSING" });
  for (const options of [
    { vocabSize: 0 },
    { vocabSize: 50, unkId: 50 },
    { vocabSize: 50, bosId: 2 },
    { vocabSize: 50, characterCoverage: 2 },
    { vocabSize: 50, type: "words" as "word" },
  ]) {
    await expect(trainBpe({ input: corpus, outPath, ...options })).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
  }
  await expect(trainBpe({ input: corpus, outPath, vocabSize: 50, extra: { no_such_option: 1 } })).rejects.toMatchObject({ code: "TEXT_TRAIN_FAILED" });
  expect(readdirSync(folder)).not.toContain("none");
});

test("damaged models are coded errors", () => {
  const bytes = readFileSync(join(folder, "uni.model"));
  for (const bad of [new Uint8Array(0), bytes.subarray(0, 100), Buffer.from("not a model")])
    expect(() => SentencePiece.fromBytes(bad)).toThrow(expect.objectContaining({ code: "TEXT_NOT_A_MODEL" }));
  expect(SentencePiece.fromBytes(bytes).vocabSize).toBe(60);
  expect(() => SentencePiece.load(join(folder, "none.model"))).toThrow(expect.objectContaining({ code: "FILE_MISSING" }));
});

test("training prints nothing to stdout", () => {
  const script = `require(${JSON.stringify(join(nativeFolder, "serac_media.node"))}).trainModel(Buffer.from(${JSON.stringify(corpus.join("\n"))}),
    { vocab_size: "40", model_prefix: "", model_type: "unigram", minloglevel: "3" }).then((m) => process.exit(m.length > 100 ? 0 : 1))`;
  expect(execFileSync(process.execPath, ["-e", script], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })).toBe("");
});

const both = ["serac_torch.node", "serac_media.node"].map((name) => join(nativeFolder, name));
test.skipIf(!both.every((path) => existsSync(path)))("a model trains beside libtorch, whichever addon is loaded first", () => {
  // Both libraries bring a protobuf of their own.
  for (const order of [both, both.toReversed()]) {
    const script = `const loaded = ${JSON.stringify(order)}.map((path) => require(path));
      const media = loaded.find((m) => m.trainModel);
      media.trainModel(Buffer.from(${JSON.stringify(corpus.join("\n"))}), { vocab_size: "60", model_prefix: "", model_type: "bpe", minloglevel: "3" })
        .then((m) => console.log(media.vocabSize(media.loadModel(m))))`;
    expect(execFileSync(process.execPath, ["-e", script], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })).toBe("60\n");
  }
});
