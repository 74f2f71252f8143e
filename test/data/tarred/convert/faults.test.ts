/** Folders that cannot be written, files that cannot be read, and disks that are full: clear errors, and nothing lost. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { convertToTarred } from "../../../../src/data/tarred/convert/convert.ts";
import { canTestPermissions, modes, seracCommand, seracUnprivileged, withMounts } from "../../unprivileged.ts";
import { corpus, newFolder, put, tree, wavBytes } from "./corpus.ts";

/** Arguments of a conversion. */
const tarArgs = (manifest: string, target: string, ...more: string[]) => [
  "tar",
  `--manifest_path=${manifest}`,
  `--target_dir=${target}`,
  "--num_shards=2",
  "--max_duration=30",
  "--workers=1",
  ...more,
];

describe.skipIf(!canTestPermissions)("as a user whom permissions bind", () => {
  /** A corpus that everybody may read, in a folder that everybody may enter. */
  function open(count: number): { folder: string; manifest: string } {
    const folder = newFolder();
    const manifest = corpus(folder, count);
    modes({ [folder]: 0o755, [join(folder, "audio")]: 0o755 });
    return { folder, manifest };
  }

  test("a read-only folder, and one below it, are errors with their path; sources stay", () => {
    const { folder, manifest } = open(4);
    mkdirSync(join(folder, "shut"), { mode: 0o555 });
    const before = tree(folder);
    for (const target of [join(folder, "shut"), join(folder, "shut", "deep", "er")]) {
      const { status, stderr } = seracUnprivileged(...tarArgs(manifest, target));
      expect(status).toBe(1);
      expect(stderr).toContain(`serac: ${target}`);
      expect(stderr).toMatch(/cannot write this file: EACCES.*\[FILE_UNWRITABLE\]/);
    }
    expect(tree(folder)).toEqual(before);
    expect(readdirSync(join(folder, "shut"))).toEqual([]);
  });

  test("a folder that becomes read-only keeps what is finished, and the same command goes on", () => {
    const { folder, manifest } = open(4);
    const target = join(folder, "t");
    mkdirSync(target);
    modes({ [target]: 0o777 });
    mkdirSync(join(target, "sharded_manifests"), { mode: 0o555 });
    const shut = seracUnprivileged(...tarArgs(manifest, target));
    expect(shut.status).toBe(1);
    expect(shut.stderr).toMatch(/audio_0\.tar: cannot write this file: EACCES.*\[FILE_UNWRITABLE\]/);
    expect(existsSync(join(target, "metadata.yaml"))).toBe(false);
    modes({ [join(target, "sharded_manifests")]: 0o777 });
    const again = seracUnprivileged(...tarArgs(manifest, target));
    expect(again.status, again.stderr).toBe(0);
    expect(readdirSync(target)).not.toContain(".serac-tar");
  });

  test("audio that may not be read is named before anything is written, or left out and counted", () => {
    const { folder, manifest } = open(6);
    mkdirSync(join(folder, "out"));
    modes({ [join(folder, "audio/s1/u1.wav")]: 0, [join(folder, "audio/s1/u4.wav")]: 0o200, [join(folder, "audio/s2")]: 0, [join(folder, "out")]: 0o777 });
    const target = join(folder, "out", "t");
    const { status, stderr } = seracUnprivileged(...tarArgs(manifest, target));
    expect(status).toBe(1);
    expect(stderr).toMatch(/the audio of 4 of 6 lines cannot be tarred/);
    for (const line of [2, 3, 5, 6]) expect(stderr).toMatch(new RegExp(`train\\.json:${line}: .*u${line - 1}\\.wav: EACCES: permission denied`));
    expect(readdirSync(target)).toEqual([]);
    const skipping = seracUnprivileged(...tarArgs(manifest, target, "--skip_unreadable", "--json"));
    expect(skipping.status, skipping.stderr).toBe(0);
    expect(JSON.parse(skipping.stdout)).toMatchObject({ kept: 6, unreadable: 4, written: 2 });
    modes({ [join(folder, "audio/s2")]: 0o755 });
  });

  test("manifests that may not be read are errors with their path", () => {
    const { folder, manifest } = open(2);
    modes({ [manifest]: 0o200 });
    for (const args of [
      tarArgs(manifest, join(folder, "t")),
      tarArgs(manifest, join(folder, "t"), "--dry_run"),
      ["manifest", "stats", manifest],
      ["manifest", "check", manifest],
      ["manifest", "filter", manifest, "--min-duration", "0", "-o", "-"],
      ["tar", "plan", "--manifest", manifest, "--tars", join(folder, "audio_0.tar")],
    ]) {
      modes({ [folder]: 0o777 });
      const { status, stderr } = seracUnprivileged(...args);
      expect(status, args.join(" ")).toBe(1);
      expect(stderr, args.join(" ")).toMatch(/train\.json: cannot read this file: EACCES.*\[FILE_UNREADABLE\]/);
    }
    expect(readdirSync(folder).sort()).toEqual(["audio", "t", "train.json"]);
    expect(readdirSync(join(folder, "t"))).toEqual([]);
  });

  test("a tar file that may not be read is a fault that verify names, and goes on behind", async () => {
    const { folder, manifest } = open(4);
    const target = join(folder, "t");
    await convertToTarred({ manifestPath: [manifest], targetDir: target, numShards: 2, maxDuration: 30, workers: 1 });
    modes({ [join(target, "audio_0.tar")]: 0 });
    const { status, stdout, stderr } = seracUnprivileged("tar", "verify", target);
    expect(status, stderr).toBe(1);
    expect(stdout + stderr).toMatch(/audio_0\.tar: cannot read this file: EACCES/);
    expect(stdout + stderr).not.toMatch(/audio_1\.tar/);
  });

  test("a manifest that may not be replaced stays, and nothing is left beside it", () => {
    const { folder, manifest } = open(3);
    const before = tree(folder);
    for (const args of [
      ["manifest", "filter", manifest, "--min-duration", "0", "-o", join(folder, "f.jsonl")],
      ["manifest", "split", manifest, "--parts", "a=0.5,b=0.5", "--out-dir", join(folder, "parts")],
      ["manifest", "check", manifest, "--fix", join(folder, "fixed.jsonl")],
    ]) {
      const { status, stderr } = seracUnprivileged(...args);
      expect(status, args.join(" ")).toBe(1);
      expect(stderr, args.join(" ")).toMatch(/EACCES.*\[FILE_UNWRITABLE\]/);
    }
    // Without --fix the check needs no room: it only cannot be taken up again.
    const check = seracUnprivileged("manifest", "check", manifest);
    expect(check.status, check.stderr).toBe(0);
    expect(tree(folder)).toEqual(before);
  });
});

describe("full and read-only disks", () => {
  const mounted = mkdtempSync(join(tmpdir(), "serac-mount-"));
  afterAll(() => rmSync(mounted, { recursive: true }));

  test("a disk without room is told before anything is written; one that fills up keeps what is finished and is taken up again", ({ skip }) => {
    const folder = newFolder();
    const manifest = corpus(folder, 4);
    const args = (more: string) => `tar --manifest_path ${manifest} --target_dir ${mounted}/t --num_shards 2 --max_duration 30 --workers 1 ${more}`;
    // 16 kB of room. What is encoded anew may become smaller: that is tried, and taken up again when there is room.
    const script = `
      mount -t tmpfs -o size=256k tmpfs ${mounted}
      head -c 240k /dev/zero > ${mounted}/full
      ${seracCommand} ${args("")}; echo "code $?"; ls -A ${mounted}/t
      ${seracCommand} ${args("--force_codec flac --no-shard-manifests")}; echo "code $?"; ls -A ${mounted}/t
      rm ${mounted}/full
      ${seracCommand} ${args("--force_codec flac --no-shard-manifests")}; echo "code $?"; ls -A ${mounted}/t
      cp -r ${mounted}/t ${folder}/t`;
    const result = withMounts(`exec 2>&1; ${script}`);
    if (result === undefined) return skip("this system does not let tests mount a file system");
    const [first, second] = result.stdout.split(/code \d\n/);
    const codes = [...result.stdout.matchAll(/code (\d)/g)].map(([, code]) => Number(code));
    expect(codes, result.stdout).toEqual([1, 1, 0]);
    expect(first).toMatch(/the tar files take .* and the disk has .* left.*\[TARRED_NO_SPACE\]/s);
    expect(second).toMatch(/cannot write this file: ENOSPC.*\[FILE_UNWRITABLE\]/s);
    expect(second).not.toMatch(/metadata\.yaml/);
    const whole = newFolder();
    return convertToTarred({ manifestPath: [manifest], targetDir: whole, numShards: 2, maxDuration: 30, workers: 1, forceCodec: "flac", shardManifests: false }).then(() => {
      for (const name of ["audio_0.tar", "audio_1.tar", "tarred_audio_manifest.json"])
        expect(readFileSync(join(folder, "t", name)).equals(readFileSync(join(whole, name))), name).toBe(true);
    });
  });

  test("a read-only mount is an error with its path", ({ skip }) => {
    const folder = newFolder();
    const manifest = corpus(folder, 2);
    const command = `mount -t tmpfs -o ro tmpfs ${mounted}; ${seracCommand} ${tarArgs(manifest, `${mounted}/t`).join(" ")}`;
    const result = withMounts(command);
    if (result === undefined) return skip("this system does not let tests mount a file system");
    expect(result.status).toBe(1);
    expect(result.stderr).toMatch(/\/t: cannot write this file: EROFS.*\[FILE_UNWRITABLE\]/);
  });
});

test("a target that vanishes between any two steps is an error with a path, and sources stay", async () => {
  const folder = newFolder();
  const manifest = corpus(folder, 8);
  const sources = tree(join(folder, "audio"));
  const target = join(folder, "t");
  const steps = ["planned", "begun", 0, 1, 2, 3] as const;
  for (const step of steps) {
    const vanish = () => rmSync(target, { recursive: true, force: true });
    const run = convertToTarred(
      { manifestPath: [manifest], targetDir: target, numShards: 4, maxDuration: 30, workers: 1 },
      {
        say: (line) => step === "planned" && /Remainder/.test(line) && vanish(),
        begin: () => step === "begun" && vanish(),
        shard: ({ shard }) => shard === step && vanish(),
      },
    );
    await expect(run, String(step)).rejects.toThrow(/\/t.*(FILE_UNWRITABLE|FILE_MISSING|TARRED_NO_SPACE|FILE_UNREADABLE)/);
    expect(existsSync(join(target, "metadata.yaml"))).toBe(false);
    vanish();
  }
  expect(tree(join(folder, "audio"))).toEqual(sources);
  const [report] = await convertToTarred({ manifestPath: [manifest], targetDir: target, numShards: 4, maxDuration: 30, workers: 1 });
  expect(report).toMatchObject({ written: 8 });
});

test("audio that changes, shrinks or vanishes between the look and the writing is an error at its line", async () => {
  const folder = newFolder();
  const manifest = corpus(folder, 4);
  const victim = join(folder, "audio", "s2", "u2.wav");
  const options = { manifestPath: [manifest], targetDir: join(folder, "t"), numShards: 1, maxDuration: 30, workers: 1 };
  await expect(convertToTarred(options, { begin: () => rmSync(victim) })).rejects.toThrow(/train\.json:3: .*u2\.wav: no such file.*TARRED_AUDIO/);
  put(victim, wavBytes(0.3, 2));
  await expect(convertToTarred(options, { begin: () => truncateSync(manifest, 30) })).rejects.toThrow(
    /train\.json:1: the manifest has changed since it was planned.*TARRED_BAD_ENTRY/,
  );
  expect(readdirSync(join(folder, "t")).filter((name) => name.endsWith(".tar"))).toEqual([]);
});

test("names that no file system holds, and audio without a byte or a sample, are named with their lines", async () => {
  const folder = newFolder();
  const tooLong = `${folder}/${"n".repeat(300)}.wav`;
  const empty = put(join(folder, "empty.wav"), "");
  const silent = put(join(folder, "silent.wav"), wavBytes(0));
  const odd = Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff]), Buffer.from(".wav")]);
  writeFileSync(odd, "");
  const names = [tooLong, empty, silent, `${folder}/\\udcff.wav`];
  const manifest = put(join(folder, "m.json"), names.map((name) => `{"audio_filepath": "${name}", "duration": 0.1, "offset": 0}\n`).join(""));
  const options = { manifestPath: [manifest], numShards: 1, maxDuration: 30, workers: 1 };
  const error = String(await convertToTarred({ ...options, targetDir: join(folder, "t") }).catch((one: Error) => one));
  expect(error).toMatch(/the audio of 3 of 4 lines/);
  expect(error).toMatch(/m\.json:1: .*n\.wav: ENAMETOOLONG.*m\.json:2: .*the file has no bytes.*m\.json:4: .*the file has no bytes/s);
  // A header alone is stored as it is, and cannot be cut.
  const [report] = await convertToTarred({ ...options, targetDir: join(folder, "u"), skipUnreadable: true });
  expect(report).toMatchObject({ unreadable: 3, written: 1 });
  await expect(convertToTarred({ ...options, targetDir: join(folder, "v"), skipUnreadable: true, sliceWithOffset: true })).rejects.toThrow(
    /m\.json:3: .*silent\.wav.*TARRED_AUDIO/,
  );
});
