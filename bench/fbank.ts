/**
 * How many seconds of audio a second of computing turns into features, beside kaldi-native-fbank where Python has it
 * (SERAC_BENCH_PYTHON names the interpreter, python3 by default). One thread each, then serac with all of libuv's.
 */
import { spawnSync } from "node:child_process";
import { fbank, fbankSync } from "../src/audio/fbank.ts";
import { Random } from "../src/util/random.ts";

const sampleRate = 16000;
const seconds = 15; // an utterance
const rounds = 40;

const random = new Random(1);
const samples = Float32Array.from({ length: sampleRate * seconds }, (_, i) => 0.2 * Math.sin(i * 0.05) + 0.05 * random.normal());

/** Audio seconds per second: the best of three, after a warm-up. */
async function rate(run: () => unknown): Promise<number> {
  await run();
  let best = 0;
  for (let i = 0; i < 3; i++) {
    const start = performance.now();
    await run();
    best = Math.max(best, (seconds * rounds * 1000) / (performance.now() - start));
  }
  return best;
}

const one = await rate(() => {
  for (let i = 0; i < rounds; i++) fbankSync(samples, { sampleRate });
});
const many = await rate(() => Promise.all(Array.from({ length: rounds }, () => fbank(samples, { sampleRate }))));
console.log(`fbank, 80 bins, ${seconds} s utterances: ${one.toFixed(0)} s of audio a second on one thread, ${many.toFixed(0)} with all`);

const python = process.env.SERAC_BENCH_PYTHON ?? "python3";
const script = `
import time, struct, sys
import kaldi_native_fbank as knf
data = sys.stdin.buffer.read()
x = list(struct.unpack("%df" % (len(data) // 4), data))
try:
    import numpy
    x = numpy.array(x, dtype=numpy.float32)
except ImportError:
    pass
opts = knf.FbankOptions()
opts.frame_opts.dither = 0
opts.frame_opts.snip_edges = False
opts.frame_opts.samp_freq = ${sampleRate}
opts.mel_opts.num_bins = 80
opts.mel_opts.high_freq = -400
def run():
    for _ in range(${rounds}):
        f = knf.OnlineFbank(opts)
        f.accept_waveform(${sampleRate}, x)
        f.input_finished()
        assert f.num_frames_ready == ${seconds * 100}
run()
best = 0
for _ in range(3):
    t = time.perf_counter()
    run()
    best = max(best, ${seconds * rounds} / (time.perf_counter() - t))
print(best)
`;
const result = spawnSync(python, ["-c", script], { input: Buffer.from(samples.buffer), encoding: "utf8" });
const theirs = Number(result.stdout);
if (result.status === 0 && theirs > 0)
  console.log(`kaldi-native-fbank: ${theirs.toFixed(0)} s of audio a second on one thread; serac is ${(one / theirs).toFixed(2)} times as fast`);
else console.log(`kaldi-native-fbank cannot be imported by ${python}, so it was not compared (set SERAC_BENCH_PYTHON)`);
