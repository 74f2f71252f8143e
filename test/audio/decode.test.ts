import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Audio, type AudioFormat, audioInfo, readAudio, readWavAudio, toMono, writeAudio } from "../../src/audio/decode.ts";
import { transcodeAudio, transcodeAudioSync } from "../../src/audio/transcode.ts";
import { serializeWav } from "../../src/formats/wav.ts";
import { AudioError } from "../../src/util/errors.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-audio-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Two channels of different tones, on the grid of 16-bit samples. */
function tones(sampleRate: number, seconds: number): Audio {
  const tone = (hertz: number) =>
    Float32Array.from({ length: Math.round(sampleRate * seconds) }, (_, i) => (Math.round(12000 * Math.sin((2 * Math.PI * hertz * i) / sampleRate)) || 0) / 32768);
  return { sampleRate, channels: [tone(440), tone(1000)] };
}
function put(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

test.each(["wav", "wav24", "wavfloat", "flac", "flac24"] as AudioFormat[])("%s gives back every sample", async (format) => {
  const audio = tones(16000, 0.5);
  const path = join(folder, "new", `a.${format}`);
  await writeAudio(path, audio, { format });
  expect(await readAudio(path)).toEqual(audio);
  expect(await readAudio(new Uint8Array(readFileSync(path)))).toEqual(audio);
  expect(await audioInfo(path)).toMatchObject({ sampleRate: 16000, channels: 2, frames: 8000, durationSeconds: 0.5, format: expect.stringMatching(/WAV|FLAC/) });
  expect(readdirSync(join(folder, "new")).filter((n) => n.includes("tmp"))).toEqual([]);
});

test.each(["ogg", "opus", "mp3"] as AudioFormat[])("%s keeps the tones", async (format) => {
  const audio = tones(16000, 1);
  const path = join(folder, `b.${format}`);
  await writeAudio(path, audio);
  const back = await readAudio(path);
  expect(back.sampleRate).toBe(16000);
  expect(back.channels).toHaveLength(2);
  expect(Math.abs((back.channels[0]?.length ?? 0) - 16000)).toBeLessThan(2500);
  const energy = (x: Float32Array | undefined, hertz: number) => {
    let [re, im] = [0, 0];
    x?.slice(2000, 14000).forEach((v, i) => {
      re += v * Math.cos((2 * Math.PI * hertz * i) / 16000);
      im += v * Math.sin((2 * Math.PI * hertz * i) / 16000);
    });
    return Math.hypot(re, im) / 6000;
  };
  expect(energy(back.channels[0], 440)).toBeCloseTo(12000 / 32768, 1);
  expect(energy(back.channels[1], 1000)).toBeCloseTo(12000 / 32768, 1);
  expect(energy(back.channels[0], 2000)).toBeLessThan(0.01);
});

test("a part by offset and duration is the slice of the whole, also without the addon", async () => {
  const audio = tones(8000, 1);
  await writeAudio(join(folder, "c.flac"), audio);
  await writeAudio(join(folder, "c.wav"), audio);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("c.flac", "c.wav"),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      fc.option(fc.double({ min: 0, max: 2, noNaN: true }), { nil: undefined }),
      async (name, offset, duration) => {
        const half = (x: number) => Math.floor(Math.round(x * 8000 * 1e8) / 1e8 + 0.5);
        const start = half(offset);
        if (start >= 8000) return;
        const expected = audio.channels.map((c) => c.slice(start, duration === undefined ? undefined : start + half(duration)));
        expect((await readAudio(join(folder, name), { offset, duration })).channels).toEqual(expected);
        if (name === "c.wav") expect((await readWavAudio(join(folder, name), { offset, duration })).channels).toEqual(expected);
      },
    ),
    { numRuns: 60 },
  );
});

test.each([
  [0, "whole"],
  [0, "streamed"],
  [0xffffffff, "whole"],
  [0xffffffff, "streamed"],
] as const)("a WAV file whose data size is left at %i (RIFF size: %s) is read to its end", async (dataSize, riff) => {
  const audio = { sampleRate: 8000, channels: [tones(8000, 0.5).channels[0] as Float32Array] };
  const bytes = Buffer.from(serializeWav(audio));
  bytes.writeUInt32LE(dataSize, 40);
  if (riff === "streamed") bytes.writeUInt32LE(dataSize === 0 ? 36 : 0xffffffff, 4);
  const path = put(`streamed-${dataSize}-${riff}.wav`, bytes);
  for (const source of [path, new Uint8Array(bytes)]) {
    expect(await readAudio(source)).toEqual(audio);
    expect(await readWavAudio(source)).toEqual(audio);
    expect((await readAudio(source, { offset: 0.1, duration: 0.2 })).channels[0]).toEqual(audio.channels[0]?.slice(800, 2400));
    expect(await audioInfo(source)).toMatchObject({ sampleRate: 8000, channels: 1, frames: 4000, durationSeconds: 0.5 });
    for (const codec of ["wav", "flac"] as const) {
      const whole = await transcodeAudio(source, { codec });
      expect(whole).toMatchObject({ sampleRate: 8000, frames: 4000 });
      expect(await readAudio(whole.bytes)).toEqual(audio);
      const part = transcodeAudioSync(source, { codec, offset: 0.1, duration: 0.2 });
      expect((await readAudio(part.bytes)).channels[0]).toEqual(audio.channels[0]?.slice(800, 2400));
    }
  }
});

test.each([1, 999, 768_001, 4_000_000_000])("a sampling rate of %i Hz is no recording's", async (rate) => {
  const bytes = Buffer.from(serializeWav({ sampleRate: 8000, channels: [new Float32Array(16000)] }));
  bytes.writeUInt32LE(rate, 24);
  const path = put("rate.wav", bytes);
  for (const read of [readAudio, readWavAudio]) {
    const error = await read(path).catch((e: AudioError) => e);
    expect(error).toBeInstanceOf(AudioError);
    expect((error as AudioError).at).toBe(path);
    if (rate < 0x7fffffff) expect(error).toMatchObject({ code: "AUDIO_BAD_RATE", message: expect.stringContaining(`${rate} Hz`) });
  }
});

test("what cannot be read has a code and a place", async () => {
  const wav = serializeWav(tones(8000, 0.1));
  await writeAudio(join(folder, "whole.flac"), { sampleRate: 16000, channels: [Float32Array.from({ length: 40000 }, (_, i) => Math.sin(i * i))] });
  const flac = readFileSync(join(folder, "whole.flac"));
  const float = serializeWav({ sampleRate: 8000, channels: [Float32Array.of(0, NaN)] }, { format: "float32" });
  const cases: [string, string | Uint8Array, string, boolean][] = [
    ["missing", join(folder, "none.wav"), "AUDIO_MISSING", true],
    ["no folder", join(folder, "whole.flac", "x.wav"), "AUDIO_MISSING", true],
    ["folder", folder, "AUDIO_NOT_AUDIO", true],
    ["no bytes", put("empty.wav", new Uint8Array(0)), "AUDIO_EMPTY", true],
    ["no samples", put("zero.wav", serializeWav({ sampleRate: 8000, channels: [new Float32Array(0)] })), "AUDIO_EMPTY", true],
    ["text", put("text.flac", Buffer.from("this is not audio at all, only some text\n".repeat(20))), "AUDIO_NOT_AUDIO", true],
    ["cut wav", put("cut.wav", wav.subarray(0, 600)), "AUDIO_TRUNCATED", true],
    ["cut header", put("head.wav", wav.subarray(0, 30)), "AUDIO_NOT_AUDIO", true],
    ["cut flac", put("cut.flac", flac.subarray(0, flac.length / 2)), "AUDIO_TRUNCATED", false],
    ["cut flac in memory", flac.subarray(0, flac.length / 2), "AUDIO_TRUNCATED", false],
    ["NaN", put("nan.wav", float), "AUDIO_NOT_FINITE", true],
    ["no bytes in memory", new Uint8Array(0), "AUDIO_EMPTY", true],
  ];
  for (const [what, source, code, wavToo] of cases) {
    const result = await readAudio(source).catch((e: AudioError) => e);
    expect(result, what).toBeInstanceOf(AudioError);
    expect([what, (result as AudioError).code]).toEqual([what, code]);
    if (typeof source === "string") expect((result as AudioError).at).toBe(source);
    if (wavToo) expect([what, ((await readWavAudio(source).catch((e: AudioError) => e)) as AudioError).code]).toEqual([what, code]);
  }
  for (const range of [{ offset: 1 }, { offset: -1 }, { offset: NaN }, { duration: -1 }, { duration: NaN }, { offset: 1e300 }]) {
    await expect(readAudio(wav, range)).rejects.toMatchObject({ code: "AUDIO_BAD_RANGE" });
    await expect(readWavAudio(wav, range)).rejects.toMatchObject({ code: "AUDIO_BAD_RANGE" });
  }
});

test("streaming writers' WAV files are read to the end", async () => {
  const audio = { sampleRate: 8000, channels: [tones(8000, 0.1).channels[0] as Float32Array] };
  for (const sizes of [0xffffffff, 0x7ffff000]) {
    const bytes = serializeWav(audio);
    const view = new DataView(bytes.buffer);
    view.setUint32(4, sizes, true);
    view.setUint32(40, sizes, true);
    expect(await readAudio(bytes)).toEqual(audio);
    expect(await readWavAudio(bytes)).toEqual(audio);
  }
});

test("what cannot be written has a code, and the old file stays", async () => {
  const path = join(folder, "keep.wav");
  await writeAudio(path, tones(8000, 0.01));
  const before = readFileSync(path);
  await expect(writeAudio(path, { sampleRate: 8000, channels: [Float32Array.of(Infinity)] })).rejects.toMatchObject({ code: "AUDIO_NOT_FINITE" });
  await expect(writeAudio(path, { sampleRate: 8000, channels: [] })).rejects.toMatchObject({ code: "AUDIO_UNWRITABLE" });
  await expect(writeAudio(path, { sampleRate: 8000, channels: [new Float32Array(1), new Float32Array(2)] })).rejects.toMatchObject({ code: "AUDIO_UNWRITABLE" });
  await expect(writeAudio(path, tones(12345, 0.01), { format: "opus" })).rejects.toMatchObject({ code: "AUDIO_UNWRITABLE" });
  await expect(writeAudio(join(folder, "x.txt"), tones(8000, 0.01))).rejects.toMatchObject({ code: "AUDIO_UNWRITABLE" });
  await expect(writeAudio(join(path, "x.wav"), tones(8000, 0.01))).rejects.toMatchObject({ code: "AUDIO_UNWRITABLE" });
  expect(readFileSync(path)).toEqual(before);
  expect(readdirSync(folder).filter((n) => n.includes("tmp"))).toEqual([]);
});

test("mono is the mean of the channels", () => {
  expect(toMono({ sampleRate: 1, channels: [Float32Array.of(1, 0), Float32Array.of(0, -1)] })).toEqual(Float32Array.of(0.5, -0.5));
  expect(() => toMono({ sampleRate: 1, channels: [] })).toThrow(expect.objectContaining({ code: "AUDIO_EMPTY" }));
});

test("damaged files of every kind give audio or a coded error", async () => {
  const audio = tones(16000, 0.1);
  const originals: Uint8Array[] = [serializeWav(audio)];
  for (const format of ["flac", "ogg", "opus", "mp3"] as const) {
    await writeAudio(join(folder, `fuzz.${format}`), audio, { format });
    originals.push(readFileSync(join(folder, `fuzz.${format}`)));
  }
  await fc.assert(
    fc.asyncProperty(fc.nat(originals.length - 1), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }), fc.nat(1000), async (which, edits, keep) => {
      const original = originals[which] as Uint8Array;
      const bytes = Uint8Array.from(original);
      for (const [i, v] of edits) bytes[i % (i % 2 ? 128 : bytes.length)] = v;
      try {
        await readAudio(bytes.subarray(0, Math.ceil((bytes.length * Math.min(keep * 1.25, 1000)) / 1000)));
      } catch (error) {
        expect(error).toBeInstanceOf(AudioError);
      }
    }),
    { numRuns: 300 },
  );
});
