import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chunkFrames, FeatureArchive, parseFeatures, parseLhotseCut, readFeatures, type SourceCut } from "../../../src/data/sources/index.ts";

interface Golden {
  files: Record<string, string>;
  cuts: { line: Record<string, unknown>; frames: number; sum: number; first: number[]; last: number[] }[];
}
const golden = JSON.parse(readFileSync(new URL("../../golden/features.json", import.meta.url), "utf8")) as Golden;
const folder = mkdtempSync(join(tmpdir(), "serac-features-"));
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(() => {
  for (const [name, bytes] of Object.entries(golden.files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), Buffer.from(bytes, "base64"));
  }
});

/** The golden cut, its storage in the test's folder. */
function cutOf(line: Record<string, unknown>, change: Record<string, unknown> = {}): SourceCut {
  const features = { ...(line["features"] as Record<string, unknown>), ...change };
  return parseLhotseCut({ ...line, features: { ...features, storage_path: join(folder, String(features["storage_path"])) } }, "cuts.jsonl:3", join(folder, "cuts.jsonl"));
}
const stored = (cut: SourceCut) => cut.features as NonNullable<SourceCut["features"]>;

describe("stored features", () => {
  test.each(golden.cuts)("are those that lhotse loads: $line.id", async ({ line, frames, sum, first, last }) => {
    const features = await readFeatures(stored(cutOf(line)));
    expect(features.frames).toBe(frames);
    expect(features.bins).toBe(4);
    expect([...features.data.subarray(0, 4)]).toEqual(first);
    expect([...features.data.subarray(-4)]).toEqual(last);
    expect(features.data.reduce((a, b) => a + b, 0)).toBeCloseTo(sum, 2);
  });

  test("paths are relative to the manifest first, archives and folders alike", async () => {
    for (const { line, frames } of golden.cuts) {
      const cut = parseLhotseCut(line, "cuts.jsonl:3", join(folder, "cuts.jsonl"));
      expect(stored(cut).manifest.storagePath).toBe(join(folder, String((line["features"] as Record<string, unknown>)["storage_path"])));
      expect((await readFeatures(stored(cut))).frames).toBe(frames);
    }
  });

  test("of an archive of chunks only those that a cut plays are read", async () => {
    // Everything behind the first chunk is gone: what lies within it can still be read.
    const { line } = golden.cuts[1] as Golden["cuts"][number];
    const copy = join(folder, "cut.lca");
    writeFileSync(copy, readFileSync(join(folder, "feats.lca")));
    truncateSync(copy, 145 + 2069);
    const features = { ...(line["features"] as Record<string, unknown>), storage_path: copy };
    const early = parseLhotseCut({ ...line, start: 4, duration: 0.9, features }, "cuts.jsonl:1");
    expect((await readFeatures(stored(early))).frames).toBe(90);
    const late = parseLhotseCut({ ...line, start: 4.9, duration: 0.3, features }, "cuts.jsonl:1");
    await expect(readFeatures(stored(late))).rejects.toThrow(/cut\.lca:145: the archive ends at 2214 bytes.*\[LILCOM_BAD\]/);
  });

  test("what is written comes back within half a tick, in chunks, with lhotse's keys; what is abandoned leaves nothing", async () => {
    const path = join(folder, "own", "feats-0.lca");
    const archive = new FeatureArchive(path);
    const frames = 2 * chunkFrames + 17;
    const data = Float32Array.from({ length: frames * 3 }, (_, i) => Math.sin(i / 40) * 5 - 6);
    archive.add({ frames: 10, bins: 3, data: data.subarray(0, 30) });
    const key = archive.add({ frames, bins: 3, data });
    expect(key.split(",")).toHaveLength(4);
    archive.close();
    const features = { type: "kaldi-fbank", num_frames: frames, num_features: 3, frame_shift: 0.01, sampling_rate: 16000, start: 0, duration: frames / 100 };
    const manifest = parseFeatures({ ...features, storage_type: "lilcom_chunky", storage_path: path, storage_key: key }, "here:1");
    const back = await readFeatures({ manifest, member: undefined, start: 0, duration: frames / 100, origin: "here:1" });
    expect(back.frames).toBe(frames);
    back.data.forEach((value, i) => expect(Math.abs(value - (data[i] as number))).toBeLessThanOrEqual(2 ** -6 + 1e-5));
    const gone = new FeatureArchive(join(folder, "gone.lca"));
    gone.abandon();
    expect(() => readFileSync(join(folder, "gone.lca"))).toThrow(/ENOENT/);
  });

  test("other kinds of storage and fields that do not fit are refused with words, at file:line", async () => {
    const { line } = golden.cuts[0] as Golden["cuts"][number];
    for (const type of ["numpy_hdf5", "lilcom_hdf5", "kaldiio", "lilcom_url", "memory_raw", "something"])
      expect(() => cutOf(line, { storage_type: type })).toThrow(/^cuts\.jsonl:3: features are stored as .*\[FEATURES_STORAGE\]\. Store them again/);
    expect(() => cutOf(line, { storage_type: "numpy_hdf5" })).toThrow(/HDF5 files are not read/);
    for (const change of [{ num_frames: "many" }, { frame_shift: 0 }, { storage_key: "1,2" }, { storage_key: "a,b,c,d" }, { type: undefined }])
      expect(() => cutOf(line, change)).toThrow(/^cuts\.jsonl:3: .*\[FEATURES_BAD\]/);
    await expect(readFeatures(stored(cutOf(line, { num_features: 5 })))).rejects.toThrow(/4 bins are stored, the manifest says 5/);
    await expect(readFeatures(stored(cutOf({ ...line, duration: 14 })))).rejects.toThrow(/1100 frames are stored from 0 s on, the cut has 1400/);
    await expect(readFeatures(stored(cutOf(line, { storage_path: "nowhere.lca" })))).rejects.toThrow(/nowhere\.lca: no such file/);
  });
});
