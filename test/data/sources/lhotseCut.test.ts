import { describe, expect, test } from "vitest";
import { numFrames, numSamples, parseLhotseCut, perturbedSamples } from "../../../src/data/sources/index.ts";

const recording = { id: "r", sources: [{ type: "file", channels: [0], source: "/a/r.flac" }], sampling_rate: 16000, num_samples: 32000, duration: 2, channel_ids: [0] };
const supervision = {
  id: "s",
  recording_id: "r",
  start: 0.25,
  duration: 1,
  text: "HELLO",
  language: "en",
  speaker: "me",
  custom: { mood: "good" },
  alignment: { word: [["HELLO", 0, 1, null]] },
};
const cut = { id: "c", start: 0, duration: 2, channel: 0, supervisions: [supervision], recording, custom: { score: 3 }, type: "MonoCut" };

describe("lines of cuts", () => {
  test("a MonoCut has its audio, text, supervisions and custom values", () => {
    const read = parseLhotseCut(cut, "cuts.jsonl:7");
    expect(read).toMatchObject({
      id: "c",
      audioPath: "/a/r.flac",
      offset: undefined,
      duration: 2,
      text: "HELLO",
      lang: "en",
      speaker: "me",
      speed: 1,
      origin: "cuts.jsonl:7",
      sampleRate: 16000,
    });
    expect(read.custom).toEqual({ score: 3 });
    expect(read.supervisions[0]).toMatchObject({ start: 0.25, custom: { mood: "good" }, alignment: { word: [["HELLO", 0, 1, null]] } });
    expect(parseLhotseCut({ ...cut, start: 0.5, duration: 1 }, "x:1")).toMatchObject({ offset: 0.5, duration: 1 });
    expect(parseLhotseCut({ ...cut, supervisions: [supervision, { ...supervision, text: "WORLD" }, { ...supervision, text: undefined }] }, "x:1").text).toBe("HELLO WORLD");
  });

  test("times of a recording that is played faster are those of its file", () => {
    const faster = { ...recording, num_samples: 29091, duration: 1.8181875, transforms: [{ name: "Speed", kwargs: { factor: 1.1 } }] };
    expect(parseLhotseCut({ ...cut, duration: 1.8181875, recording: faster }, "x:1")).toMatchObject({ speed: 1.1, offset: undefined });
    const part = parseLhotseCut({ ...cut, start: 0.5, duration: 1, recording: faster }, "x:1");
    expect(part.offset).toBeCloseTo(0.55);
    expect(part.duration).toBe(1);
    const resampled = { ...recording, transforms: [{ name: "Resample", kwargs: { source_sampling_rate: 8000, target_sampling_rate: 16000 } }] };
    expect(parseLhotseCut({ ...cut, recording: resampled }, "x:1").speed).toBe(1);
  });

  test("transforms of a recording are applied in their order; those that are not there are refused", () => {
    const transformed = (...transforms: object[]) => parseLhotseCut({ ...cut, start: 0.5, duration: 1, recording: { ...recording, transforms } }, "x:1");
    const volume = { name: "Volume", kwargs: { factor: 2 } };
    expect(transformed(volume)).toMatchObject({ sound: { kind: "volume", factor: 2, of: { duration: 1, sound: { kind: "cut", cut: { offset: 0.5, speed: 1 } } } } });
    const faster = { name: "Speed", kwargs: { factor: 1.25 } };
    expect(transformed(volume, faster)).toMatchObject({
      duration: 1,
      sound: { kind: "speed", factor: 1.25, of: { duration: 1.25, sound: { kind: "volume", of: { duration: 1.25, sound: { cut: { offset: 0.625 } } } } } },
    });
    const reverb = (kwargs: object) => ({ name: "ReverbWithImpulseResponse", kwargs });
    expect(transformed(reverb({ rir: { ...recording, id: "room" }, normalize_output: false, early_only: true, rir_channels: [0] }))).toMatchObject({
      sound: { kind: "reverb", normalize: false, response: { kind: "recording", cut: { id: "room", duration: 0.05, offset: 0 } } },
    });
    expect(() => transformed(reverb({ rir: null, rir_generator: { seed: 1 } }))).toThrow(/^x:1: reverberation by lhotse's generator/);
    expect(() => transformed(reverb({ rir: recording, rir_channels: [0, 1] }))).toThrow(/2 channels of a response/);
    expect(() => transformed({ name: "Tempo", kwargs: { factor: 1.1 } })).toThrow(/^x:1: there is the transform "Tempo".*\[CUT_BAD\]\. Store features/);
  });

  test("one channel of a recording of several, in one file or in several", () => {
    const stereo = { ...recording, sources: [{ type: "file", channels: [0, 1], source: "/a/r.wav" }], channel_ids: [0, 1] };
    expect(parseLhotseCut({ ...cut, channel: 1, recording: stereo }, "x:1")).toMatchObject({ audioPath: "/a/r.wav", channel: 1 });
    const files = { ...recording, sources: [0, 1].map((i) => ({ type: "file", channels: [i], source: `/a/${i}.wav` })), channel_ids: [0, 1] };
    expect(parseLhotseCut({ ...cut, channel: 1, recording: files }, "x:1")).toMatchObject({ audioPath: "/a/1.wav", channel: undefined });
    expect(parseLhotseCut({ ...cut, type: "MultiCut", channel: [0] }, "x:1").audioPath).toBe("/a/r.flac");
    expect(() => parseLhotseCut({ ...cut, type: "MultiCut", channel: [0, 1], recording: stereo }, "x:1")).toThrow(/MultiCut of 2 channels/);
  });

  test("a MixedCut plays its audible tracks from their offsets on, with what is said in them", () => {
    const track = (offset: number, one: object, more: object = {}): object => ({ cut: one, type: "MonoCut", offset, ...more });
    const mixed = {
      id: "m",
      type: "MixedCut",
      tracks: [
        track(0, cut),
        { type: "PaddingCut", offset: 2, cut: { id: "p", duration: 0.5 } },
        track(2.5, { ...cut, id: "d" }, { snr: 7 }),
        track(5, { ...cut, id: "e" }, { mute: true }),
      ],
    };
    const read = parseLhotseCut(mixed, "x:1");
    expect(read).toMatchObject({ id: "m", duration: 4.5, text: "HELLO HELLO", speaker: "me", custom: { score: 3 }, features: undefined });
    expect(read.supervisions.map(({ start }) => start)).toEqual([0.25, 2.75]);
    expect(read.sound).toMatchObject({ kind: "tracks", reference: 0, tracks: [{ offset: 0 }, { offset: 2.5, snr: 7 }] });
    expect(parseLhotseCut({ ...mixed, tracks: [track(0, cut)] }, "x:1").sound).toBeUndefined();
    // Words move with their track.
    expect(read.supervisions[1]?.alignment?.["word"]).toEqual([["HELLO", 2.5, 1, null]]);
    const refuse = (tracks: object[], message: RegExp) => expect(() => parseLhotseCut({ ...mixed, tracks }, "x:1")).toThrow(message);
    refuse([], /^x:1: .*without a track that plays something.*\[CUT_BAD\]/);
    refuse([track(0, cut, { snr: 3 }), track(1, cut, { snr: 4 })], /tracks all have a ratio/);
    refuse([track(0, cut, { snr: "loud" })], /"snr" is "loud", expected dB/);
    refuse([track(-1, cut)], /"offset" is -1, expected seconds from 0/);
    refuse([track(0, cut, { mute: true, is_snr_reference: true }), track(0, cut, { snr: 3 })], /ratios are to a muted track/);
    refuse([{ ...track(0, cut), type: "MixedCut" }], /among the tracks of a MixedCut/);
    expect(() => parseLhotseCut({ ...cut, type: "PaddingCut" }, "x:1")).toThrow(/PaddingCut on its own/);
  });

  test("what is none, or cannot be used, is an error at file:line", () => {
    for (const change of [
      { id: "" },
      { start: -1 },
      { start: "0" },
      { duration: 0 },
      { duration: Number.NaN },
      { type: "Recording" },
      { recording: undefined },
      { supervisions: [{ id: "s" }] },
    ])
      expect(() => parseLhotseCut({ ...cut, ...change }, "cuts.jsonl:9")).toThrow(/^cuts\.jsonl:9: .*\[CUT_BAD\]/);
    expect(() => parseLhotseCut({ audio_filepath: "a.wav", duration: 1 }, "x:1")).toThrow(/line of a NeMo manifest.*type: nemo/s);
    const command = { ...recording, sources: [{ type: "command", channels: [0], source: "sox -" }] };
    expect(() => parseLhotseCut({ ...cut, recording: command }, "x:1")).toThrow(/the audio is a "command"/);
    const shar = { ...recording, sources: [{ type: "shar", channels: [0], source: "" }] };
    expect(() => parseLhotseCut({ ...cut, recording: shar }, "x:1")).toThrow(/type lhotse_shar/);
  });
});

test("samples and frames are rounded as lhotse rounds them", () => {
  // Numbers of lhotse 1.33.
  expect([numSamples(1.2500625, 16000), numSamples(0.00003125, 16000), numSamples(0.1, 22050)]).toEqual([20001, 1, 2205]);
  expect([numFrames(1, 0.01, 16000), numFrames(1.111125, 0.01, 16000), numFrames(0.9090625, 0.01, 16000), numFrames(0.005, 0.01, 16000)]).toEqual([100, 111, 91, 1]);
  expect([perturbedSamples(16000, 0.9), perturbedSamples(20001, 0.9), perturbedSamples(16000, 1.1), perturbedSamples(20001, 1.1)]).toEqual([17778, 22223, 14545, 18183]);
});
