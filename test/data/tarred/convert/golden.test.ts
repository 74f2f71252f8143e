import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { normalizeOwners } from "../../../../src/formats/tar/normalize.ts";
import { serializeWav } from "../../../../src/formats/wav.ts";
import { packageRoot } from "../../../../src/util/paths.ts";
import { newFolder } from "./corpus.ts";

interface Golden {
  cases: Record<string, { args: string[]; files: Record<string, string> }>;
}
const golden = JSON.parse(readFileSync(join(packageRoot, "test/golden/tarred-convert.json"), "utf8")) as Golden;

/** The corpus of scripts/interop/tarred-convert.mjs, which records the digests. */
function writeCorpus(folder: string): void {
  const lines: string[] = [];
  for (let i = 0; i < 60; i++) {
    const samples = Float32Array.from({ length: 800 * (1 + (i % 6)) }, (_, k) => (((k * (i + 3) * 7919) % 20011) - 10005) / 32768);
    const name = i === 7 ? "ünï/ß.wav" : i === 8 ? `${"long/".repeat(30)}x.wav` : i === 9 ? "a.b/c.d.wav" : `s${i % 3}/u${i}.wav`;
    const path = join(folder, "audio", name);
    const time = i === 10 ? 1_600_000_000 : 1_700_000_000.25 + i / 1024;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, serializeWav({ sampleRate: 8000, channels: [samples] }), { mode: 0o644 });
    utimesSync(path, time, time);
    const rest = i % 5 === 0 ? ', "x": [1e-5, 2.0, null, true, {"k": 12345678901234567890}]' : "";
    lines.push(`{"audio_filepath": "audio/${name}", "duration": ${(1 + (i % 6)) / 10}, "text": "wörter ${i}", "offset": ${(i % 4) / 100}${rest}}`);
    if (i % 4 === 0) lines.push(`{"audio_filepath": "audio/${name}", "duration": 0.05, "text": "again", "offset": 0.04}`);
  }
  writeFileSync(join(folder, "train.json"), `${lines.join("\n")}\n`);
  writeFileSync(join(folder, "second.json"), `\n${lines.slice(0, 10).join("\n\n").replaceAll('"audio_filepath"', '"audio_file"')}`);
}

test("tars, manifests and metadata.yaml are those that NeMo's script writes, byte for byte", () => {
  const folder = newFolder();
  writeCorpus(folder);
  expect(Object.keys(golden.cases).length).toBeGreaterThanOrEqual(9);
  for (const [name, { args, files }] of Object.entries(golden.cases)) {
    const { status, stderr } = spawnSync(process.execPath, [join(packageRoot, "bin/serac"), "tar", ...args, "--target_dir", name, "--workers=2"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(status, `${name}: ${stderr}`).toBe(0);
    const ours = (readdirSync(join(folder, name), { recursive: true }) as string[]).filter(
      (file) => statSync(join(folder, name, file)).isFile() && !file.includes("tarred_audio_record"),
    );
    expect(ours.sort(), name).toEqual(Object.keys(files).sort());
    for (const [file, digest] of Object.entries(files)) {
      let bytes = normalizeOwners(readFileSync(join(folder, name, file)), file.endsWith(".tar"));
      if (file.endsWith(".yaml")) bytes = Buffer.from(bytes.toString().replace(/^created_datetime.*\n/, ""));
      expect(createHash("sha256").update(bytes).digest("hex"), `${name}/${file}`).toBe(digest);
    }
  }
});
