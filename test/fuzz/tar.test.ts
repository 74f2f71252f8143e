import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll } from "vitest";
import { LeftOut } from "../../src/data/filter.ts";
import { loadTarredCuts } from "../../src/data/tarred/index.ts";
import { readTar, readTarSource } from "../../src/formats/tar/read.ts";
import { indexPath, listIndexed, parseTarIndex, serializeTarIndex } from "../../src/formats/tar/readIndex.ts";
import { streamSource } from "../../src/formats/tar/source.ts";
import { archive, memberBytes } from "../formats/tar/archives.ts";
import { damaged, fuzz } from "./fuzz.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Names of every kind that needs a header of its own, and types that carry data or none. */
const spec = fc.record({
  name: fc.oneof(fc.stringMatching(/^[a-z._-]{1,20}$/), fc.constantFrom("ü.wav", "\udc80.wav", `${"d".repeat(99)}/${"n".repeat(99)}.wav`, "a.wav", "a-sub1.wav")),
  data: fc.uint8Array({ maxLength: 1100 }),
  type: fc.constantFrom("0", "0", "0", "1", "2", "5", "7", "S", "x", "g", "L", "K", "V"),
  linkName: fc.constantFrom("", "a.wav"),
});
const whole = fc.tuple(fc.array(spec, { maxLength: 4 }), fc.constantFrom("pax" as const, "gnu" as const)).map(([specs, format]) => new Uint8Array(archive(specs, format)));
/** Headers whose checksum is right though their numbers are not: what chance alone hardly makes. */
const hostile = fc.tuple(fc.uint8Array({ minLength: 512, maxLength: 512 }), fc.integer({ min: 0, max: 2 }), whole).map(([noise, kind, rest]) => {
  const header = Buffer.from(memberBytes({ name: "h", data: "" }).subarray(0, 512));
  if (kind === 0) noise.slice(0, 12).forEach((byte, i) => (header[124 + i] = byte));
  else if (kind === 1)
    header.write(
      ["77777777777", "00000000000", "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"][(noise[0] ?? 0) % 4] as string,
      124,
      "latin1",
    );
  else header[156] = noise[0] ?? 0;
  let sum = 8 * 32;
  for (let i = 0; i < 512; i++) if (i < 148 || i >= 156) sum += header[i] as number;
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return new Uint8Array(Buffer.concat([header, rest]));
});
const tars = fc.oneof(fc.uint8Array({ maxLength: 2000 }), damaged(whole), hostile, damaged(hostile));

async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield Buffer.from(bytes.subarray(at, at + size));
}

fuzz("tar: any bytes give members or a coded error, with and without skipping damage, in any chunks", tars, async (bytes) => {
  const onDamaged = bytes.length % 4 === 0 ? undefined : () => {};
  for await (const { data, size } of readTarSource(streamSource(chunksOf(bytes, 1 + (bytes.length % 700))), "fuzz", { ...(onDamaged ? { onDamaged } : {}) }))
    if (data && data.length !== size) throw new Error("a member that is not whole came out");
});

fuzz(
  "tar files: plain and packed, any bytes give members or a coded error",
  fc.oneof(tars, damaged(tars.map((bytes) => new Uint8Array(gzipSync(bytes))))),
  async (bytes) => {
    const path = join(folder, "in.tar");
    writeFileSync(path, bytes);
    for await (const _ of readTar(path, { data: bytes.length % 2 === 0, onDamaged: () => {} }));
  },
  { weight: 10 },
);

const index = fc
  .array(fc.nat(40), { maxLength: 6 })
  .map((blocks) => new Uint8Array(serializeTarIndex({ offsets: [...new Set(blocks)].sort((a, b) => a - b).map((block) => 512 * block), fileSize: 20480 })));
const indices = fc.oneof(fc.uint8Array({ maxLength: 80 }), index, damaged(index));

fuzz("idx: any bytes give ascending offsets within the archive, or a coded error", indices, (bytes) => {
  const { offsets, fileSize } = parseTarIndex(bytes, 20480, "fuzz.idx", { strict: bytes.length % 3 === 0 });
  if (offsets.some((offset, i) => offset >= fileSize || (i > 0 && offset <= (offsets[i - 1] as number)))) throw new Error("offsets that do not ascend came out");
});

fuzz(
  "idx files beside tars: any pair gives members or a coded error",
  fc.tuple(whole, indices).map(([tar, idx]) => Object.assign(new Uint8Array(Buffer.concat([tar, idx])), { tarLength: tar.length })),
  async (both) => {
    const path = join(folder, "indexed.tar");
    writeFileSync(path, both.subarray(0, both.tarLength));
    writeFileSync(indexPath(path), both.subarray(both.tarLength));
    await listIndexed(path);
  },
  { weight: 10 },
);

fuzz(
  "tarred datasets: any tar gives cuts whose members lie within it, or a coded error",
  tars,
  async (bytes) => {
    const path = join(folder, "audio_0.tar");
    writeFileSync(path, bytes);
    rmSync(indexPath(path), { force: true });
    const manifest = join(folder, "manifest_0.json");
    writeFileSync(manifest, ["a.wav", "a-sub1.wav", "ü.wav", "h"].map((name) => `${JSON.stringify({ audio_filepath: name, duration: 1 })}\n`).join(""));
    for (const { member } of await loadTarredCuts({ manifest, tars: path }, { leftOut: new LeftOut(), say: () => {} }))
      if (member === undefined || member.offset + member.size > bytes.length) throw new Error("a cut lies outside of its tar");
  },
  { weight: 10 },
);
