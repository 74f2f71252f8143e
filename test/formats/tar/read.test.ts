import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tarTypes } from "../../../src/formats/tar/header.ts";
import { type ReadTarOptions, readTar, readTarSource, type TarMember } from "../../../src/formats/tar/read.ts";
import { streamSource } from "../../../src/formats/tar/source.ts";
import { archive, memberBytes, type Spec } from "./archives.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-tar-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function read(bytes: Uint8Array, options?: ReadTarOptions, name = "a.tar"): Promise<TarMember[]> {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  const members: TarMember[] = [];
  for await (const member of readTar(path, options)) members.push(member);
  return members;
}

async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const brief = (members: readonly TarMember[]): [string, string][] => members.map(({ name, data }) => [name, data?.toString("latin1") ?? "-"]);
const long = `${"d".repeat(90)}/${"n".repeat(90)}.wav`;
const three: Spec[] = [
  { name: "a.wav", data: "A".repeat(513) },
  { name: "b.wav", data: "" },
  { name: "c.wav", data: "C" },
];

describe("readTar", () => {
  test("PAX, GNU and ustar give names, sizes and bytes alike; long and other names too", async () => {
    for (const format of ["pax", "gnu", "ustar"] as const) {
      const specs = [...three, { name: long, data: "L" }];
      const members = await read(archive(specs, format));
      expect(brief(members), format).toEqual(specs.map(({ name, data }) => [name, data]));
      expect(members.map(({ headerOffset }) => headerOffset).slice(0, 3)).toEqual([0, 1536, 2048]);
      expect(members[0]).toMatchObject({ size: 513, mtime: 1_700_000_000, mode: 0o644, dataOffset: 512 });
    }
    const odd = [`${"ü".repeat(200)}.wav`, "\udc80\udcff.wav", "日本.flac"];
    for (const format of ["pax", "gnu"] as const)
      expect(
        (
          await read(
            archive(
              odd.map((name) => ({ name, data: name.length.toString() })),
              format,
            ),
          )
        ).map(({ name }) => name),
      ).toEqual(odd);
  });

  test("headers of version 7, without a magic, are read", async () => {
    const bytes = archive([{ name: "a.wav", data: "A" }], "ustar");
    bytes.fill(0, 257, 512); // magic, owners' names and prefix came later
    bytes.fill(0x20, 148, 156);
    const sum = bytes.subarray(0, 512).reduce((total, byte) => total + byte, 0);
    bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    expect(brief(await read(bytes))).toEqual([["a.wav", "A"]]);
  });

  test("any members in any chunks, plain or gzip, come back in order", async () => {
    const specs = fc.array(fc.record({ name: fc.stringMatching(/^[a-z0-9/_.]{1,120}$/), data: fc.uint8Array({ maxLength: 3000 }) }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(specs, fc.constantFrom("pax", "gnu"), fc.integer({ min: 1, max: 5000 }), async (list, format, size) => {
        const bytes = archive(list, format as "pax");
        const expected = list.map(({ name, data }) => [name, Buffer.from(data).toString("latin1")]);
        const streamed: TarMember[] = [];
        for await (const member of readTarSource(streamSource(chunksOf(bytes, size)), "stream")) streamed.push(member);
        expect(brief(streamed)).toEqual(expected);
        const plain = await read(bytes);
        expect(brief(plain)).toEqual(expected);
        expect(plain.map(({ headerOffset, dataOffset }) => [headerOffset, dataOffset])).toEqual(streamed.map(({ headerOffset, dataOffset }) => [headerOffset, dataOffset]));
        expect(brief(await read(gzipSync(bytes), {}, "a.tar.gz"))).toEqual(expected);
      }),
      { numRuns: 40 },
    );
  });

  test("bzip2 and xz are unpacked by their programs, and a missing program is said", async () => {
    const bytes = archive(three);
    for (const [program, name] of [
      ["bzip2", "a.tar.bz2"],
      ["xz", "a.tar.xz"],
    ] as const) {
      const { stdout, error } = spawnSync(program, ["-c"], { input: bytes });
      if (error) continue; // the next lines show what is then said
      expect(brief(await read(stdout, {}, name))).toEqual(three.map(({ name, data }) => [name, data]));
      await expect(read(stdout.subarray(0, stdout.length - 20), {}, name)).rejects.toMatchObject({ code: "TAR_TRUNCATED" });
      writeFileSync(join(folder, name), stdout);
      const first: TarMember[] = [];
      for await (const member of readTar(join(folder, name))) {
        first.push(member);
        break; // the program is ended
      }
      const before = process.env["PATH"];
      process.env["PATH"] = "/nowhere";
      try {
        await expect(read(stdout, {}, name)).rejects.toMatchObject({ code: "TAR_UNPACKER", message: expect.stringContaining(program) });
      } finally {
        process.env["PATH"] = before;
      }
    }
  });

  test("an archive whose first member's name begins like bzip2 is plain", async () => {
    expect(brief(await read(archive([{ name: "BZh91.wav", data: "x" }])))).toEqual([["BZh91.wav", "x"]]);
  });

  test("only wanted bytes are kept; folders and links are told by their type", async () => {
    const members = await read(archive([{ name: "d/", type: tarTypes.directory }, ...three, { name: "l.wav", type: tarTypes.hardLink, linkName: "a.wav" }]), {
      data: ({ name }) => name === "c.wav",
    });
    expect(brief(members)).toEqual([
      ["d/", "-"],
      ["a.wav", "-"],
      ["b.wav", "-"],
      ["c.wav", "C"],
      ["l.wav", "-"],
    ]);
    expect(members[4]).toMatchObject({ type: "1", linkName: "a.wav", size: 0 });
  });

  test("a damaged header costs one member: the next ones are found again", async () => {
    const bytes = archive(three);
    bytes[1536 + 130] = 0x39; // the size of b.wav
    await expect(read(bytes)).rejects.toMatchObject({ code: "TAR_BAD", at: expect.stringMatching(/a\.tar, byte 1536$/) });
    const errors: string[] = [];
    expect(brief(await read(bytes, { onDamaged: (error) => errors.push(error.code) }))).toEqual([
      ["a.wav", "A".repeat(513)],
      ["c.wav", "C"],
    ]);
    expect(errors).toEqual(["TAR_BAD"]);
  });

  test("a header with a wrong size loses what it covers and no more", async () => {
    // b claims 10 bytes: its checksum is right, but the block of c is taken for its data; d follows.
    const wrong = Buffer.concat([
      memberBytes({ name: "a", data: "A" }),
      memberBytes({ name: "b", data: "0123456789" }).subarray(0, 512),
      memberBytes({ name: "c" }),
      memberBytes({ name: "d", data: "D" }),
      Buffer.alloc(1024),
    ]);
    expect((await read(wrong)).map(({ name }) => name)).toEqual(["a", "b", "d"]);
  });

  test("a truncated archive gives what is whole, then names the member", async () => {
    const bytes = archive(three);
    const errors: string[] = [];
    expect(brief(await read(bytes.subarray(0, 1000), { onDamaged: (error) => errors.push(error.message) }))).toEqual([]);
    expect(errors).toEqual([expect.stringMatching(/a\.tar:a\.wav: the archive ends inside of this member: 488 of its 513 bytes are there \[TAR_TRUNCATED\]/)]);
    await expect(read(bytes.subarray(0, 1600))).rejects.toMatchObject({ code: "TAR_TRUNCATED" });
    await expect(read(bytes.subarray(0, 700), { data: false })).rejects.toMatchObject({ code: "TAR_TRUNCATED" });
  });

  test("a missing end mark is noted, an empty file too; zeros between members are damage that is passed over", async () => {
    const notes: string[] = [];
    const onNote = (note: string) => notes.push(note);
    const bytes = archive(three);
    expect(await read(bytes.subarray(0, 3072), { onNote })).toHaveLength(3);
    expect(notes).toEqual([expect.stringContaining("there is no end mark")]);
    expect(await read(Buffer.alloc(0), { onNote })).toEqual([]);
    expect(notes).toHaveLength(2);
    const errors: string[] = [];
    const holed = Buffer.concat([memberBytes({ name: "a" }), Buffer.alloc(512), archive([{ name: "b" }, { name: "c" }])]);
    expect((await read(holed, { onDamaged: ({ code }) => errors.push(code) })).map(({ name }) => name)).toEqual(["a", "c"]);
    expect(errors).toEqual(["TAR_BAD"]);
  });

  test("global PAX headers apply to all that follow, local ones win", async () => {
    const globals = memberBytes({ name: "g", type: tarTypes.paxGlobalHeader, data: "11 mtime=5\n" });
    const members = await read(Buffer.concat([globals, archive([{ name: "a" }, { name: long }])]));
    expect(members.map(({ name, mtime }) => [name, mtime])).toEqual([
      ["a", 5],
      [long, 5],
    ]);
  });

  test("any number of records that nobody needs costs nothing", async () => {
    const headers = Array.from({ length: 20_000 }, (_, i) => {
      const text = `key${i}=${i}\n`;
      const length = text.length + 1 + String(text.length + 3).length;
      return memberBytes({ name: "pax", type: i % 2 === 0 ? "g" : "x", data: `${length} ${text}` });
    });
    const bytes = Buffer.concat([...headers, archive([{ name: "a.wav", data: "abc" }])]);
    expect((await read(bytes)).map(({ name }) => name)).toEqual(["a.wav"]);
  });

  test("sparse members are damage, and what follows is read", async () => {
    const errors: string[] = [];
    const bytes = Buffer.concat([memberBytes({ name: "s", type: tarTypes.gnuSparse, data: "xx" }), archive([{ name: "b", data: "B" }])]);
    expect(brief(await read(bytes, { onDamaged: (error) => errors.push(error.message) }))).toEqual([["b", "B"]]);
    expect(errors).toEqual([expect.stringContaining("a sparse member")]);
  });

  test("a claimed size beyond the file allocates nothing of it", async () => {
    const huge = memberBytes({ name: "a", data: "A" });
    huge.write("77777777777\0", 124, "latin1");
    let sum = 8 * 32;
    for (let i = 0; i < 512; i++) if (i < 148 || i >= 156) sum += huge[i] as number;
    huge.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    const before = process.memoryUsage().arrayBuffers;
    await expect(read(huge)).rejects.toMatchObject({ code: "TAR_TRUNCATED" });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 << 20);
  });

  test("missing files, folders and files without permission are coded errors", async () => {
    mkdirSync(join(folder, "dir.tar"));
    const all = async (path: string) => {
      for await (const _ of readTar(path));
    };
    await expect(all(join(folder, "none.tar"))).rejects.toMatchObject({ code: "FILE_MISSING" });
    await expect(all(join(folder, "dir.tar"))).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
    if (process.getuid?.() !== 0) {
      writeFileSync(join(folder, "secret.tar"), "x");
      chmodSync(join(folder, "secret.tar"), 0);
      await expect(all(join(folder, "secret.tar"))).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
    }
  });
});
