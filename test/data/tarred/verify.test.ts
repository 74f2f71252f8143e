import { copyFileSync, cpSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { convertToTarred } from "../../../src/data/tarred/convert/convert.ts";
import { type VerifyReport, verifyTarred } from "../../../src/data/tarred/verify/verify.ts";
import { printTarHeader, readTar, type TarMember } from "../../../src/formats/tar/index.ts";
import { corpus, newFolder } from "./convert/corpus.ts";

/** Writes an archive anew, with its members changed. */
async function rewrite(path: string, change: (members: TarMember[]) => TarMember[]): Promise<void> {
  const members: TarMember[] = [];
  for await (const member of readTar(path)) members.push(member);
  const parts = change(members).flatMap((member) => [printTarHeader(member), member.data as Buffer, Buffer.alloc((512 - ((member.data as Buffer).length % 512)) % 512)]);
  writeFileSync(path, Buffer.concat([...parts, Buffer.alloc(1024)]));
}
const kinds = (report: VerifyReport): string[] => report.findings.map(({ kind }) => kind).sort();
const examplesOf = (report: VerifyReport, kind: string): string => report.findings.find((one) => one.kind === kind)?.examples.join("\n") ?? "";

let good: string;
beforeAll(async () => {
  const folder = newFolder();
  good = join(folder, "good");
  await convertToTarred({ manifestPath: [corpus(folder, 20)], targetDir: good, numShards: 4, maxDuration: 20, forceCodec: "flac", workers: 1 });
});

/** A copy of the good dataset. */
function copy(): string {
  const folder = join(newFolder(), "d");
  cpSync(good, folder, { recursive: true });
  return folder;
}

describe("serac tar verify", () => {
  test("finds nothing in a whole dataset, by folder or by patterns", async () => {
    expect(await verifyTarred({ folder: good })).toMatchObject({ ok: true, findings: [], shards: 4, entries: 20, members: 20, checksums: 4 });
    expect(await verifyTarred({ manifest: `${good}/sharded_manifests/manifest_{0..3}.json`, tars: `${good}/audio_{0..3}.tar`, decode: false })).toMatchObject({
      ok: true,
      findings: [],
      shards: 4,
      checksums: 0,
    });
    expect(await verifyTarred({ manifest: `${good}/tarred_audio_manifest.json`, tars: `${good}/audio_{0..3}.tar` })).toMatchObject({ ok: true, findings: [], entries: 20 });
    await expect(verifyTarred({ folder: join(good, "sharded_manifests") })).rejects.toThrow(/TARRED_METADATA/);
  });

  test("a truncated tar file", async () => {
    const folder = copy();
    truncateSync(join(folder, "audio_1.tar"), readFileSync(join(folder, "audio_1.tar")).length / 2);
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["checksum", "memberMissing", "tarDamaged"]);
    expect(examplesOf(report, "tarDamaged")).toMatch(/audio_1\.tar:\S+\.flac: the archive ends inside of this member/);
    expect(examplesOf(report, "checksum")).toMatch(/audio_1\.tar: it has \d+ bytes instead of \d+/);
  });

  test("a wrong extension", async () => {
    const folder = copy();
    await rewrite(join(folder, "audio_2.tar"), (members) => members.map((one, i) => (i === 1 ? { ...one, name: one.name.replace(".flac", ".wav") } : one)));
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["checksum", "wrongExtension"]);
    expect(examplesOf(report, "wrongExtension")).toMatch(/audio_2\.tar:\S+_u11\.wav: \S*manifest_2\.json:2 has \S+_u11\.flac/);
  });

  test("a missing member and one without an entry", async () => {
    const folder = copy();
    await rewrite(join(folder, "audio_0.tar"), (members) => members.map((one, i) => (i === 3 ? { ...one, name: "stranger.flac" } : one)));
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["checksum", "memberMissing", "memberWithoutEntry"]);
    expect(examplesOf(report, "memberMissing")).toMatch(/audio_0\.tar:\S+_u3\.flac: named by \S*manifest_0\.json:4/);
    expect(examplesOf(report, "memberWithoutEntry")).toMatch(/audio_0\.tar:stranger\.flac/);
  });

  test("a duplicate member", async () => {
    const folder = copy();
    await rewrite(join(folder, "audio_3.tar"), (members) => [...members, members[2] as TarMember]);
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["checksum", "memberDuplicate"]);
    expect(examplesOf(report, "memberDuplicate")).toMatch(/audio_3\.tar:\S+_u17\.flac/);
  });

  test("swapped shards, with and without checksums", async () => {
    const folder = copy();
    renameSync(join(folder, "audio_0.tar"), join(folder, "x"));
    renameSync(join(folder, "audio_1.tar"), join(folder, "audio_0.tar"));
    renameSync(join(folder, "x"), join(folder, "audio_1.tar"));
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["checksum", "memberMissing", "memberWithoutEntry", "swapped"]);
    expect(examplesOf(report, "checksum")).toMatch(/audio_0\.tar: its SHA-256 is that of audio_1\.tar/);
    rmSync(join(folder, "tarred_audio_record.json"));
    expect(examplesOf(await verifyTarred({ folder }), "swapped")).toMatch(/audio_0\.tar: its members are those of shard 1\n.*audio_1\.tar: its members are those of shard 0/);
  });

  test("a flipped bit anywhere in a tar file", async () => {
    const original = readFileSync(join(good, "audio_0.tar"));
    for (const share of [0.001, 0.2, 0.5, 0.8, 0.999]) {
      const folder = copy();
      const bytes = Buffer.from(original);
      const at = Math.floor(share * bytes.length);
      bytes[at] = (bytes[at] as number) ^ 4;
      writeFileSync(join(folder, "audio_0.tar"), bytes);
      const report = await verifyTarred({ folder });
      expect(report.ok).toBe(false);
      expect(examplesOf(report, "checksum")).toMatch(/audio_0\.tar: its SHA-256 is another/);
    }
    // Without a record the decoder finds a flipped bit in the audio, and names the member.
    const folder = copy();
    const bytes = Buffer.from(original);
    let place: TarMember | undefined;
    for await (const member of readTar(join(folder, "audio_0.tar"))) place = member;
    const at = (place?.dataOffset as number) + Math.floor((place?.size as number) / 2);
    bytes[at] = (bytes[at] as number) ^ 4;
    writeFileSync(join(folder, "audio_0.tar"), bytes);
    rmSync(join(folder, "tarred_audio_record.json"));
    const report = await verifyTarred({ folder });
    expect(report.ok).toBe(false);
    expect(report.findings.map(({ examples }) => examples.join()).join()).toContain(`audio_0.tar:${place?.name}`);
  });

  test("uneven shards are a warning; ids and the manifest of all shards must agree", async () => {
    const folder = copy();
    const path = join(folder, "sharded_manifests", "manifest_2.json");
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    writeFileSync(path, `${lines.slice(1).join("\n").replace('"shard_id": 2', '"shard_id": 9')}\n`);
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["aggregate", "memberWithoutEntry", "shardId", "uneven"]);
    expect(examplesOf(report, "uneven")).toMatch(/audio_2\.tar: 4 entries instead of 5/);
    expect(examplesOf(report, "shardId")).toMatch(/manifest_2\.json:1: shard_id is 9, and this is the manifest of shard 2/);
  });

  test("durations that are not those of the audio, and members that are no audio", async () => {
    const folder = copy();
    const edit = (name: string) => {
      const path = join(folder, name);
      writeFileSync(path, readFileSync(path, "utf8").replace(/"duration": [\d.]+, "text": "words 7"/, '"duration": 3.5, "text": "words 7"'));
    };
    edit("tarred_audio_manifest.json");
    edit("sharded_manifests/manifest_1.json");
    await rewrite(join(folder, "audio_0.tar"), (members) => members.map((one, i) => (i === 0 ? { ...one, data: Buffer.alloc(one.size, "text ") } : one)));
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["audio", "checksum", "duration"]);
    expect(examplesOf(report, "duration")).toMatch(/audio_1\.tar:\S+_u7\.flac: 0\.300 s of audio, and \S*manifest_1\.json:3 says 3\.5 s/);
    expect(examplesOf(report, "audio")).toMatch(/audio_0\.tar:\S+_u0\.flac.*AUDIO_NOT_AUDIO/);
  });

  test("missing tar files and tar files of no manifest", async () => {
    const folder = copy();
    renameSync(join(folder, "audio_3.tar"), join(folder, "audio_8.tar"));
    copyFileSync(join(folder, "audio_1.tar"), join(folder, "audio_2.tar"));
    const report = await verifyTarred({ folder });
    expect(kinds(report)).toEqual(["checksum", "manifestMissing", "memberMissing", "memberWithoutEntry", "swapped", "tarMissing"]);
    expect(examplesOf(report, "tarMissing")).toMatch(/audio_3\.tar: 5 entries/);
    expect(examplesOf(report, "manifestMissing")).toMatch(/audio_8\.tar/);
  });
});
