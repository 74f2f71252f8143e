/**
 * Opening of manifests as sources, plain and gzip: lines a second of CPU time, memory; loading of batches at random; draws of mixtures; lilcom.
 * SERAC_BENCH_LINES makes it another number of lines.
 */
import { mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { memorySource } from "../src/data/sampling/index.ts";
import { MuxSource, openSources } from "../src/data/sources/index.ts";
import { compressLilcom, decompressLilcom } from "../src/formats/lilcom.ts";
import { Random } from "../src/util/random.ts";

const count = Number(process.env.SERAC_BENCH_LINES ?? 300_000);
const folder = mkdtempSync(join(tmpdir(), "serac-bench-"));
/** CPU time of this process: other work on the machine changes it little. */
const seconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const megabytes = (): number => {
  globalThis.gc?.();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return (heapUsed + arrayBuffers) / 1e6;
};
const print = (what: string, figure: number, unit: string): void => console.log(`${what.padEnd(52)} ${figure >= 100 ? figure.toFixed(0) : figure.toFixed(2)} ${unit}`);

try {
  const random = new Random(1);
  const words = (): string => Array.from({ length: 30 }, () => "abcdefghijklmnop".slice(0, random.integer(2, 9))).join(" ");
  const manifests = {
    nemo: (i: number) => ({ audio_filepath: `/corpus/${i % 997}/utterance-${i}.flac`, duration: 1 + random.uniform() * 15, text: words(), lang: "en", speaker: `s${i % 977}` }),
    cuts: (i: number) => {
      const duration = 1 + random.uniform() * 15;
      const features = { type: "kaldi-fbank", num_frames: 400, num_features: 80, frame_shift: 0.01, sampling_rate: 16000, start: 0, duration: 4, storage_type: "lilcom_chunky" };
      return {
        id: `cut-${i}`,
        start: 0,
        duration,
        channel: 0,
        supervisions: [{ id: `s-${i}`, recording_id: `r-${i}`, start: 0, duration, channel: 0, text: words(), language: "English", speaker: `s${i % 977}` }],
        features: { ...features, storage_path: "data/fbank/feats/feats-0.lca", storage_key: `${i * 30_000},30000`, channels: 0 },
        recording: {
          id: `r-${i}`,
          sources: [{ type: "file", channels: [0], source: `/corpus/r-${i}.flac` }],
          sampling_rate: 16000,
          num_samples: 64000,
          duration,
          channel_ids: [0],
        },
        type: "MonoCut",
      };
    },
  };
  for (const [kind, make] of Object.entries(manifests)) {
    const plain = join(folder, `${kind}.jsonl`);
    const fd = openSync(plain, "w");
    for (let i = 0; i < count; i += 1000) writeSync(fd, Array.from({ length: Math.min(1000, count - i) }, (_, k) => `${JSON.stringify(make(i + k))}\n`).join(""));
    writeFileSync(`${plain}.gz`, gzipSync(readFileSync(plain)));
    for (const path of [plain, `${plain}.gz`]) {
      const label = path.slice(folder.length + 1);
      const held = megabytes();
      const start = seconds();
      const { source } = await openSources(kind === "nemo" ? { manifest_filepath: path } : { cuts_path: path });
      print(`open ${label}`, count / (seconds() - start), "lines/s");
      print(`  held, of ${(statSync(plain).size / 1e6).toFixed(0)} MB unpacked`, megabytes() - held, "MB");
      const loading = seconds();
      for (let i = 0; i < 50; i++) await source.load(Array.from({ length: 40 }, () => random.integer(0, count)));
      print("  load batches of 40 at random", (50 * 40) / (seconds() - loading), "cuts/s");
    }
  }
  const part = (size: number) => memorySource(Array.from({ length: size }, () => ({ duration: 1 })));
  const mux = new MuxSource([part(1000), part(50_000), part(3)], { weights: [1, 5, 0.1], infinite: true });
  const stream = await mux.open({ epoch: 0, seed: 0, shuffle: true });
  const draws = 3_000_000;
  const start = seconds();
  for (let drawn = 0; drawn < draws; ) drawn += (await stream.read(1024))?.count ?? draws;
  print("draw from a mixture", draws / (seconds() - start), "items/s");
  const array = { shape: [500, 80], data: Float32Array.from({ length: 40_000 }, (_, i) => -8 + 3 * Math.sin(i / 90) + random.normal() * 0.5) };
  const bytes = compressLilcom(array);
  let time = seconds();
  for (let i = 0; i < 100; i++) decompressLilcom(bytes);
  print("lilcom, decompress features of 5 s of audio", 500 / (seconds() - time), "s of audio/s");
  time = seconds();
  for (let i = 0; i < 100; i++) compressLilcom(array);
  print("lilcom, compress", 500 / (seconds() - time), "s of audio/s");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
