import fc from "fast-check";
import { expect, test } from "vitest";
import { parseWav, parseWavHeader, serializeWav, type WavFormat } from "../../src/formats/wav.ts";
import { FormatError } from "../../src/util/errors.ts";

const bitsOf: Record<WavFormat, number> = { pcm8: 8, pcm16: 16, pcm24: 24, pcm32: 32, float32: 32, float64: 64 };
const formats = Object.keys(bitsOf) as WavFormat[];

/** A file by hand: 16-bit mono unless told otherwise. */
function wav({
  tag = 1,
  channels = 1,
  bits = 16,
  rate = 8000,
  data = [1, 2, 3, 4],
  riffSize = -1,
  dataSize = -1,
  before = [] as number[],
  extra = [] as number[],
  after = [] as number[],
} = {}): Uint8Array {
  const u16 = (x: number) => [x & 255, (x >> 8) & 255];
  const u32 = (x: number) => [...u16(x & 0xffff), ...u16(x >>> 16)];
  const ascii = (s: string) => [...s].map((c) => c.charCodeAt(0));
  const align = (bits / 8) * channels;
  const body = [
    ...ascii("WAVE"),
    ...before,
    ...ascii("fmt "),
    ...u32(16 + extra.length),
    ...u16(tag),
    ...u16(channels),
    ...u32(rate),
    ...u32(rate * align),
    ...u16(align),
    ...u16(bits),
    ...extra,
    ...ascii("data"),
    ...u32(dataSize < 0 ? data.length : dataSize),
    ...data,
    ...after,
  ];
  return Uint8Array.from([...ascii("RIFF"), ...u32(riffSize < 0 ? body.length : riffSize), ...body]);
}

function codeOf(f: () => unknown): string {
  try {
    f();
  } catch (error) {
    if (error instanceof FormatError) return error.code;
    throw error;
  }
  return "none";
}
const samplesOf = (bytes: Uint8Array) => Array.from(parseWav(bytes).channels[0] ?? []);

test("samples scale by 2^(bits - 1), 8 bits are unsigned", () => {
  expect(samplesOf(wav({ bits: 8, data: [0, 128, 255] }))).toEqual([-1, 0, 127 / 128]);
  expect(samplesOf(wav({ data: [0x00, 0x80, 0x01, 0x00, 0xff, 0x7f] }))).toEqual([-1, 1 / 32768, 32767 / 32768]);
  expect(samplesOf(wav({ bits: 24, data: [0, 0, 0x80, 1, 0, 0, 0xff, 0xff, 0xff] }))).toEqual([-1, 2 ** -23, -(2 ** -23)]);
  expect(samplesOf(wav({ bits: 32, data: [0, 0, 0, 0x80, 0, 0, 0, 0x40] }))).toEqual([-1, 0.5]);
  expect(samplesOf(wav({ tag: 3, bits: 32, data: [...new Uint8Array(Float32Array.of(1.5, -0.1).buffer)] }))).toEqual([1.5, Math.fround(-0.1)]);
  expect(samplesOf(wav({ tag: 3, bits: 64, data: [...new Uint8Array(Float64Array.of(-2).buffer)] }))).toEqual([-2]);
});

test("channels are told apart, a part of the frames can be read", () => {
  const stereo = wav({ channels: 2, data: [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0] });
  expect(parseWav(stereo).channels.map((c) => Array.from(c, (x) => x * 32768))).toEqual([
    [1, 3, 5],
    [2, 4, 6],
  ]);
  expect(parseWav(stereo, { start: 1, frames: 1 }).channels.map((c) => Array.from(c, (x) => x * 32768))).toEqual([[3], [4]]);
  expect(parseWav(stereo, { start: 9 }).channels[0]).toHaveLength(0);
});

test("extensible formats, odd chunks and their padding", () => {
  const guidTail = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];
  expect(samplesOf(wav({ tag: 0xfffe, extra: [22, 0, 16, 0, 4, 0, 0, 0, 1, 0, ...guidTail] }))).toHaveLength(2);
  const odd = [...Buffer.from("LIST"), 3, 0, 0, 0, 65, 66, 67, 0];
  expect(samplesOf(wav({ before: odd }))).toHaveLength(2);
  expect(samplesOf(wav({ data: [1, 0, 2, 0], after: odd }))).toHaveLength(2);
});

test("sizes that streaming writers leave are read to the end, cut files are told", () => {
  for (const [riffSize, dataSize] of [
    [0xffffffff, 0xffffffff],
    [0, 0],
    [36, 0],
    [0x7ffff024, 0x7ffff000],
  ] as const) {
    expect(parseWavHeader(wav({ riffSize, dataSize }))).toMatchObject({ numFrames: 2, truncated: false });
  }
  expect(parseWavHeader(wav({ dataSize: 100 }))).toMatchObject({ numFrames: 2, truncated: true });
  expect(parseWavHeader(wav({ data: [1, 2, 3] }))).toMatchObject({ numFrames: 1, truncated: false });
  expect(parseWavHeader(wav({ data: [], after: [...Buffer.from("LIST"), 2, 0, 0, 0, 1, 1] }))).toMatchObject({ numFrames: 0, truncated: false }); // honestly empty
  const samples = { data: [1, 0, 2, 0, 3, 0, 4, 0, 5, 0], dataSize: 0 }; // the RIFF size was filled in, the data's was not
  expect(parseWavHeader(wav(samples))).toMatchObject({ numFrames: 5, truncated: false });
  expect(parseWavHeader(wav({ ...samples, data: new Array(64).fill(0) }))).toMatchObject({ numFrames: 32, truncated: false });
  expect(parseWavHeader(wav().subarray(0, 44), { fileSize: 48 })).toMatchObject({ numFrames: 2, truncated: false });
});

test("RF64 takes its sizes from ds64", () => {
  const bytes = wav({
    dataSize: 0xffffffff,
    riffSize: 0xffffffff,
    before: [...Buffer.from("ds64"), 28, 0, 0, 0, ...new Array(8).fill(0), 2, 0, 0, 0, 0, 0, 0, 0, ...new Array(12).fill(0)],
  });
  bytes.set(Buffer.from("RF64"));
  expect(parseWavHeader(bytes)).toMatchObject({ numFrames: 1, truncated: false });
});

test("what cannot be read has a code", () => {
  expect(codeOf(() => parseWav(new Uint8Array(0)))).toBe("WAV_BAD");
  expect(codeOf(() => parseWav(Buffer.from("fLaC and so on and on")))).toBe("WAV_BAD");
  expect(codeOf(() => parseWav(wav().subarray(0, 30)))).toBe("WAV_BAD");
  expect(codeOf(() => parseWav(wav({ tag: 7, bits: 8 })))).toBe("WAV_UNSUPPORTED");
  expect(codeOf(() => parseWav(wav({ bits: 12 })))).toBe("WAV_UNSUPPORTED");
  expect(codeOf(() => parseWav(wav({ channels: 0 })))).toBe("WAV_UNSUPPORTED");
  expect(codeOf(() => parseWav(wav({ channels: 9 })))).toBe("WAV_UNSUPPORTED");
  expect(codeOf(() => parseWav(wav({ rate: 0 })))).toBe("WAV_BAD");
});

test("every format round-trips to half a step, pcm16 exactly", () => {
  const sample = fc.float({ min: -1, max: Math.fround(0.99), noNaN: true });
  fc.assert(
    fc.property(fc.constantFrom(...formats), fc.integer({ min: 1, max: 8 }), fc.array(sample, { maxLength: 20 }), (format, n, values) => {
      const channels = Array.from({ length: n }, (_, c) => Float32Array.from(values, (x) => x / (c + 1)));
      const back = parseWav(serializeWav({ sampleRate: 16000, channels }, { format }));
      expect(back.sampleRate).toBe(16000);
      expect(back.channels).toHaveLength(n);
      const step = format.startsWith("float") ? 0 : 0.5 / 2 ** (bitsOf[format] - 1) + 1e-7;
      back.channels.forEach((c, i) => c.forEach((x, t) => expect(Math.abs(x - (channels[i]?.[t] ?? NaN))).toBeLessThanOrEqual(step)));
      expect(serializeWav(back, { format })).toEqual(serializeWav({ sampleRate: 16000, channels }, { format }));
    }),
  );
});

test("full scale clips, NaN and ragged channels are refused", () => {
  expect(samplesOf(serializeWav({ sampleRate: 8000, channels: [Float32Array.of(5, -5, Infinity)] }))).toEqual([32767 / 32768, -1, 32767 / 32768]);
  expect(codeOf(() => serializeWav({ sampleRate: 8000, channels: [Float32Array.of(NaN)] }))).toBe("WAV_UNSUPPORTED");
  expect(codeOf(() => serializeWav({ sampleRate: 8000, channels: [new Float32Array(1), new Float32Array(2)] }))).toBe("WAV_UNSUPPORTED");
  expect(codeOf(() => serializeWav({ sampleRate: 0.5, channels: [new Float32Array(1)] }))).toBe("WAV_UNSUPPORTED");
});

test("any damage gives audio or a coded error, never more frames than bytes", () => {
  const valid = serializeWav({ sampleRate: 8000, channels: [Float32Array.of(0.1, 0.2, 0.3)] });
  const damaged = fc.tuple(fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 4 }), fc.nat(valid.length)).map(([edits, n]) => {
    const bytes = valid.slice();
    for (const [i, v] of edits) bytes[i] = v;
    return bytes.subarray(0, n);
  });
  fc.assert(
    fc.property(fc.oneof(damaged, fc.uint8Array()), (bytes) => {
      codeOf(() => expect(parseWav(bytes).channels.flatMap((c) => [...c]).length).toBeLessThanOrEqual(bytes.length));
    }),
    { numRuns: 1000 },
  );
});
