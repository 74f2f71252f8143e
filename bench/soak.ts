/**
 * 200,000 utterances through the loader, with augmentation: resident memory may rise by less than 1 MB per 10,000. A line each 10,000 utterances, the
 * slope at the end; the exit code is 1 where it is larger. SERAC_SOAK_UTTERANCES makes it another number, SERAC_BENCH_WORKERS other threads than 2.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeAudio } from "../src/audio/index.ts";
import { ColumnSource, createSampler, cutMixTransform, Loader, openNoise, perturbSpeedTransform, type SourceCut } from "../src/data/index.ts";
import { Random } from "../src/util/random.ts";

const total = Number(process.env.SERAC_SOAK_UTTERANCES ?? 200_000);
const workers = Number(process.env.SERAC_BENCH_WORKERS ?? 2);
const every = Math.max(1, Math.round(total / 20));
const sampleRate = 16_000;
const folder = mkdtempSync(join(tmpdir(), "serac-soak-"));

const random = new Random(1);
for (let i = 0; i < 100; i++) {
  const samples = Float32Array.from({ length: 3000 + random.integer(0, 4000) }, (_, k) => 0.2 * Math.sin(k * 0.05 * (1 + (i % 7))) + 0.02 * random.normal());
  await writeAudio(join(folder, `u${i}.flac`), { sampleRate, channels: [samples] });
}
const files = await openNoise(folder);
const fileOf = (row: number): SourceCut => files[row % files.length] as SourceCut;
/** All utterances as cuts of a hundred files; each is made when it is loaded, as from a manifest. */
const source = new ColumnSource<SourceCut>({
  name: "soak",
  durations: Float64Array.from({ length: total }, (_, row) => fileOf(row).duration),
  load: async (rows) => Array.from(rows, (row) => ({ ...fileOf(row), id: `u${row}`, text: `utterance ${row}` })),
  where: (row) => `utterance ${row}`,
  fingerprint: () => "soak",
});
const sampler = await createSampler(source, { kind: "bucketing", numBuckets: 5, maxDuration: 20, shuffle: true, bufferSize: 5000 });
const loader = new Loader(sampler, {
  workers,
  cutTransforms: [perturbSpeedTransform(), cutMixTransform(files, { p: 0.5 })],
  specAugment: { timeWarpFactor: 5 },
});

const collect = (globalThis as { gc?: () => void }).gc;
const measured: { utterances: number; megabytes: number }[] = [];
const start = performance.now();
let utterances = 0;
let next = every;
for await (const { cuts } of await loader.epoch(0)) {
  utterances += cuts.length;
  if (utterances < next) continue;
  next += every;
  collect?.();
  const megabytes = process.memoryUsage().rss / 2 ** 20;
  measured.push({ utterances, megabytes });
  console.log(`${utterances.toLocaleString("en")} utterances, ${megabytes.toFixed(1)} MB, ${Math.round(utterances / ((performance.now() - start) / 1000))} a second`);
}
await loader.close();
rmSync(folder, { recursive: true });

// The first quarter is left out: heaps find their size.
const kept = measured.slice(Math.floor(measured.length / 4));
const mean = (of: (one: (typeof measured)[number]) => number): number => kept.reduce((sum, one) => sum + of(one), 0) / kept.length;
const [x, y] = [mean((one) => one.utterances), mean((one) => one.megabytes)];
const slope = kept.reduce((sum, one) => sum + (one.utterances - x) * (one.megabytes - y), 0) / kept.reduce((sum, one) => sum + (one.utterances - x) ** 2, 0);
console.log(`resident memory rises by ${(slope * 10_000).toFixed(3)} MB per 10,000 utterances (below 1 wanted)`);
process.exitCode = utterances === total && slope * 10_000 < 1 ? 0 : 1;
