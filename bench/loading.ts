/**
 * How many seconds of audio a second of one core makes into batches: 16 kHz FLAC to collated fbank with SpecAugment, with the share of each stage, and
 * beside lhotse's K2SpeechRecognitionDataset in a DataLoader with as many workers where SERAC_BENCH_PYTHON names a Python that has both.
 * CPU seconds of all threads are counted, which other work on the machine hardly changes; rates by the clock stand beside them.
 * SERAC_BENCH_WORKERS: threads, 2 by default. SERAC_BENCH_ROUNDS: how often the 64 files are read, 20 by default.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fbankSync, readAudio, SpecAugment, writeAudio } from "../src/audio/index.ts";
import { createSampler, Loader, memorySource, paddingValue, type SourceCut } from "../src/data/index.ts";
import { Random } from "../src/util/random.ts";

const workers = Number(process.env.SERAC_BENCH_WORKERS ?? 2);
const rounds = Number(process.env.SERAC_BENCH_ROUNDS ?? 20);
const python = process.env.SERAC_BENCH_PYTHON;
const sampleRate = 16_000;
const files = 64;
const maxDuration = 200;
const folder = mkdtempSync(join(tmpdir(), "serac-bench-"));

/** Voices with pauses and a little noise, so that FLAC has as much to do as with speech: about half of the 16-bit size. */
function voice(seconds: number, random: Random): Float32Array {
  const samples = new Float32Array(Math.round(seconds * sampleRate));
  const pitch = 90 + 120 * random.uniform();
  for (let i = 0; i < samples.length; i++) {
    const t = i / sampleRate;
    const loud = Math.max(0, Math.sin(2 * Math.PI * 1.7 * t) + 0.4);
    let x = 0;
    for (let k = 1; k <= 12; k++) x += Math.sin(2 * Math.PI * pitch * k * (t + 0.002 * Math.sin(9 * t)) + k) / k;
    samples[i] = 0.08 * loud * x + (0.003 + 0.02 * loud) * random.normal();
  }
  return samples;
}

const random = new Random(1);
const cuts: SourceCut[] = [];
for (let i = 0; i < files; i++) {
  const seconds = Math.round((5 + 12 * random.uniform()) * 100) / 100;
  const audioPath = join(folder, `u${i}.flac`);
  const samples = voice(seconds, random);
  await writeAudio(audioPath, { sampleRate, channels: [samples] });
  const id = `u${i}`;
  const duration = samples.length / sampleRate;
  const supervision = { id, start: 0, duration, text: "a b", language: undefined, speaker: undefined, custom: {}, alignment: undefined };
  cuts.push({
    id,
    audioPath,
    offset: undefined,
    duration,
    text: "a b",
    speaker: undefined,
    lang: undefined,
    speed: 1,
    tracks: undefined,
    gap: 0,
    origin: id,
    features: undefined,
    supervisions: [supervision],
    sampleRate,
    channel: undefined,
    custom: {},
  });
}
const seconds = cuts.reduce((sum, { duration }) => sum + duration, 0);

const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const show = (rate: number): string => Math.round(rate).toLocaleString("en");

/** CPU seconds of `run`, after a first run that is not counted. */
async function cost(run: () => unknown): Promise<number> {
  await run();
  const start = cpuSeconds();
  await run();
  return cpuSeconds() - start;
}

console.log(`${files} FLAC files of 5 to 17 s, ${seconds.toFixed(0)} s; batches of ${maxDuration} s; ${workers} threads`);
const audios = await Promise.all(cuts.map(({ audioPath }) => readAudio(audioPath)));
const features = audios.map(({ channels }) => fbankSync(channels[0] as Float32Array, { sampleRate }));
const decode = await cost(async () => {
  for (const { audioPath } of cuts) await readAudio(audioPath);
});
const fbank = await cost(() => {
  for (const { channels } of audios) fbankSync(channels[0] as Float32Array, { sampleRate });
});
const frames = features.reduce((most, one) => Math.max(most, one.frames), 0);
const collate = await cost(() => {
  for (let first = 0; first < files; first += 16) {
    const inputs = new Float32Array(16 * frames * 80);
    for (let i = 0; i < 16; i++) {
      const { data } = features[first + i] as { data: Float32Array };
      inputs.set(data, i * frames * 80);
      inputs.fill(paddingValue, i * frames * 80 + data.length, (i + 1) * frames * 80);
    }
  }
});
const augment = new SpecAugment();
const masks = await cost(() => {
  const draws = new Random(2);
  for (const one of features) augment.applyToSegments({ ...one, data: one.data.slice() }, [{ startFrame: 0, numFrames: one.frames }], draws);
});
const stages = decode + fbank + collate + masks;
for (const [name, spent] of Object.entries({ decode, fbank, collate, SpecAugment: masks }))
  console.log(`${name.padEnd(12)} ${show(seconds / spent).padStart(8)} s of audio a CPU second alone, ${((100 * spent) / stages).toFixed(0)} % of the stages`);

async function load(threads: number): Promise<{ cpu: number; wall: number }> {
  const repeated = Array.from({ length: rounds }, (_, k) => cuts.map((cut) => ({ ...cut, id: `${cut.id}-${k}` }))).flat();
  const loader = new Loader(await createSampler(memorySource(repeated), { kind: "bucketing", numBuckets: 8, maxDuration, shuffle: true }), { workers: threads, specAugment: {} });
  const epoch = await loader.epoch(0);
  await epoch.next(); // threads have started, and plans are made
  const [start, cpu] = [performance.now(), cpuSeconds()];
  let done = 0;
  for await (const batch of epoch) done += batch.audioSeconds;
  const result = { cpu: done / (cpuSeconds() - cpu), wall: done / ((performance.now() - start) / 1000) };
  await loader.close();
  return result;
}
await load(workers);
const serac = await load(workers);
console.log(`loader, ${workers} threads: ${show(serac.cpu)} s of audio a CPU second, ${show(serac.wall)} a second by the clock (1,200 a CPU second wanted)`);
const inline = await load(0);
console.log(`loader, in this thread with Node's: ${show(inline.cpu)} a CPU second, ${show(inline.wall)} by the clock`);

const script = `
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import torch
from lhotse import CutSet, Fbank, FbankConfig, Recording, SupervisionSegment
from lhotse.dataset import DynamicBucketingSampler, K2SpeechRecognitionDataset, OnTheFlyFeatures, SpecAugment
paths, rounds, workers = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
cuts = []
for path in paths:
    recording = Recording.from_file(path)
    for k in range(rounds):
        cut = recording.to_cut()
        cut.id = f"{recording.id}-{k}"
        cut.supervisions = [SupervisionSegment(id=cut.id, recording_id=recording.id, start=0, duration=cut.duration, channel=0, text="a b")]
        cuts.append(cut)
sampler = DynamicBucketingSampler(CutSet.from_cuts(cuts), max_duration=${maxDuration}, num_buckets=8, shuffle=True)
def cpu():
    return sum(r.ru_utime + r.ru_stime for r in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))
for batched in (True, False):
    dataset = K2SpeechRecognitionDataset(input_strategy=OnTheFlyFeatures(Fbank(FbankConfig(num_filters=80)), use_batch_extract=batched), input_transforms=[SpecAugment()])
    start, before = time.perf_counter(), cpu()
    loader = torch.utils.data.DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=workers)
    for batch in loader:
        pass
    del loader
    done = sum(cut.duration for cut in cuts)
    print(done / (cpu() - before), done / (time.perf_counter() - start))
`;
if (python === undefined) console.log("lhotse was not compared: set SERAC_BENCH_PYTHON");
else {
  const list = join(folder, "list.json");
  writeFileSync(list, JSON.stringify(cuts.map(({ audioPath }) => audioPath)));
  const { status, stdout, stderr } = spawnSync(python, ["-c", script, list, String(Math.max(1, Math.round(rounds / 4))), String(workers)], { encoding: "utf8" });
  if (status !== 0) console.log(`lhotse was not compared: ${python} failed: ${stderr.trim().split("\n").at(-1)}`);
  else
    stdout
      .trim()
      .split("\n")
      .forEach((line, i) => {
        const [cpu, wall] = line.split(" ").map(Number) as [number, number];
        console.log(
          `lhotse, ${workers} workers, features ${i === 0 ? "by batch" : "one by one"}: ${show(cpu)} a CPU second, ${show(wall)} by the clock; serac is ${(serac.cpu / cpu).toFixed(2)} times as fast by CPU, ${(serac.wall / wall).toFixed(2)} by the clock`,
        );
      });
}
rmSync(folder, { recursive: true });
