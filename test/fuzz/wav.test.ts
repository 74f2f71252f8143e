import fc from "fast-check";
import { parseWav, parseWavHeader, serializeWav } from "../../src/formats/wav.ts";
import { damaged, fuzz } from "./fuzz.ts";

const whole = fc
  .tuple(
    fc.constantFrom("pcm8" as const, "pcm16" as const, "pcm24" as const, "pcm32" as const, "float32" as const, "float64" as const),
    fc.integer({ min: 1, max: 3 }),
    fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { maxLength: 60 }),
  )
  .map(([format, channels, samples]) => serializeWav({ sampleRate: 8000, channels: Array.from({ length: channels }, () => Float32Array.from(samples)) }, { format }));
/** Chunk sizes and fields of the header that claim anything. */
const hostile = fc.tuple(whole, fc.nat(60), fc.uint8Array({ minLength: 4, maxLength: 4 })).map(([bytes, at, claim]) => {
  const changed = new Uint8Array(bytes);
  changed.set(claim.subarray(0, Math.max(0, Math.min(4, changed.length - at))), Math.min(at, changed.length));
  return changed;
});
const wavs = fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged(whole), hostile, damaged(hostile));

fuzz("wav: any bytes give samples of the header's number, or a coded error", wavs, (bytes) => {
  const header = parseWavHeader(bytes);
  if (!(header.numFrames >= 0) || header.dataOffset > bytes.length) throw new Error(`a header of ${header.numFrames} frames from byte ${header.dataOffset}`);
  const { channels } = parseWav(bytes);
  if (channels.length !== header.numChannels || channels.some((samples) => samples.length !== header.numFrames)) throw new Error("other samples than the header promises");
});

fuzz("wav: the beginning of a longer file is read by its header alone", wavs, (bytes) => {
  parseWavHeader(bytes.subarray(0, 100), { fileSize: 1e12 });
});
