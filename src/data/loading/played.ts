/**
 * Changes of cuts: of their sound, and along with it of their times and supervisions. They draw nothing: same arguments, same cut.
 * Source: lhotse's cuts (cut/data.py, cut/mixed.py, cut/set.py) and its transforms of recordings.
 */
import type { ClipOptions, LossyCodec } from "../../audio/index.ts";
import { ConfigError } from "../../util/errors.ts";
import type { SourceCut, Supervision } from "../sources/cut.ts";
import { type Placed, playedOf, type Response, type Sound } from "../sources/sound.ts";
import { digits, retimed, shifted } from "../sources/supervisions.ts";
import { numSamples, perturbedSamples } from "../sources/times.ts";

/** A cut that may have been changed. */
export type PlayedCut = SourceCut;

function changed(cut: PlayedCut, sound: Sound, duration: number, supervisions: readonly Supervision[] = cut.supervisions): PlayedCut {
  return { ...cut, sound, duration, supervisions, text: textOf(supervisions, cut.text) };
}

/** The text of supervisions, joined; that of the cut where it has none. */
function textOf(supervisions: readonly Supervision[], text: string): string {
  if (supervisions.length === 0) return text;
  return supervisions.flatMap((one) => (one.text === undefined || one.text === "" ? [] : [one.text])).join(" ");
}

/**
 * Plays a cut faster (above 1) or slower, tempo and pitch together. Samples, and so times, are counted as lhotse counts them.
 * @param sampleRate Hz at which samples are counted
 */
export function perturbCutSpeed(cut: PlayedCut, factor: number, sampleRate: number): PlayedCut {
  if (!(factor > 0.01 && factor < 100)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "perturbCutSpeed", message: `the factor is ${factor}, not within 0.01 to 100` });
  if (factor === 1) return cut;
  const time = (seconds: number): number => perturbedSamples(numSamples(seconds, sampleRate), factor) / sampleRate;
  return {
    ...changed(
      cut,
      { kind: "speed", of: playedOf(cut), factor },
      time(cut.duration),
      cut.supervisions.map((one) => retimed(one, time, time)),
    ),
    id: `${cut.id}_sp${factor}`,
    features: undefined,
  };
}

/** Multiplies the samples; nothing is clipped. */
export function perturbCutVolume(cut: PlayedCut, factor: number): PlayedCut {
  if (!(factor >= 0 && Number.isFinite(factor))) throw new ConfigError("CONFIG_BAD_VALUE", { at: "perturbCutVolume", message: `the factor is ${factor}, not a number from 0` });
  return { ...changed(cut, { kind: "volume", of: playedOf(cut), factor }, cut.duration), id: `${cut.id}_vp${factor}`, features: undefined };
}

/** Scales samples to a loudness in LUFS. */
export const normalizeCutLoudness = (cut: PlayedCut, target: number): PlayedCut => ({
  ...changed(cut, { kind: "loudness", of: playedOf(cut), target }, cut.duration),
  id: `${cut.id}_ln${target}`,
  features: undefined,
});

/** Takes away what is above some Hz. */
export const lowpassCut = (cut: PlayedCut, cutoff: number): PlayedCut => ({
  ...changed(cut, { kind: "lowpass", of: playedOf(cut), cutoff }, cut.duration),
  id: `${cut.id}_lowpassed${cutoff}`,
  features: undefined,
});

/** Sends samples through a codec that loses something, and back. @param level of compression, 0 to 1 for the worst sound */
export const compressCut = (cut: PlayedCut, codec: LossyCodec, level: number): PlayedCut => ({
  ...changed(cut, { kind: "codec", of: playedOf(cut), codec, level }, cut.duration),
  id: `${cut.id}_${codec}${level.toFixed(2)}`,
  features: undefined,
});

/** Clips or saturates samples. */
export const clipCut = (cut: PlayedCut, options: ClipOptions): PlayedCut => ({
  ...changed(cut, { kind: "clip", of: playedOf(cut), options }, cut.duration),
  id: `${cut.id}_cl${options.gainDb.toFixed(1)}`,
  features: undefined,
});

/** Convolves with an impulse response; length and times stay. */
export function reverbCut(cut: PlayedCut, response: Response, { normalize = true }: { normalize?: boolean } = {}): PlayedCut {
  return { ...changed(cut, { kind: "reverb", of: playedOf(cut), response, normalize }, cut.duration), id: `${cut.id}_rvb`, features: undefined };
}

/**
 * Adds noises, each at its ratio to the cut's energy; its own id and supervisions stay, and those of noises are left out.
 * @param duration seconds of the mix: noise that reaches beyond it is cut off
 */
export function mixCut(cut: PlayedCut, noises: readonly { cut: PlayedCut; offset: number; snr: number | undefined }[], duration = cut.duration): PlayedCut {
  const tracks = [{ of: playedOf(cut), offset: 0, snr: undefined }, ...noises.map(({ cut: noise, offset, snr }) => ({ of: playedOf(noise), offset, snr }))];
  return changed(cut, { kind: "tracks", tracks, reference: 0 }, duration);
}

/** Plays cuts one after another, with `gap` seconds of silence between them; supervisions of all are kept, moved to their new times. */
export function appendCuts(cuts: readonly PlayedCut[], gap: number): PlayedCut {
  const [first] = cuts;
  if (!first) throw new ConfigError("CONFIG_BAD_VALUE", { at: "appendCuts", message: "there is no cut" });
  if (!(gap >= 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "appendCuts", message: `the gap is ${gap}, expected seconds from 0` });
  if (cuts.length === 1) return first;
  let end = 0;
  const parts: Placed[] = [];
  const supervisions: Supervision[] = [];
  for (const cut of cuts) {
    const offset = parts.length === 0 ? 0 : digits(end + gap);
    parts.push({ of: playedOf(cut), offset });
    for (const one of cut.supervisions) supervisions.push(shifted(one, offset));
    end = digits(offset + cut.duration);
  }
  const text = cuts.flatMap((cut) => (cut.text === "" ? [] : [cut.text])).join(" ");
  return { ...changed(first, { kind: "row", parts }, end, supervisions), id: cuts.map(({ id }) => id).join("+"), text, features: undefined };
}

/** One supervision in place of all: from the first one's start to the last one's end, with their texts joined. Source: lhotse, merge_supervisions. */
export function mergeSupervisions(cut: PlayedCut): PlayedCut {
  const [first] = cut.supervisions;
  if (!first || cut.supervisions.length === 1) return cut;
  const ordered = [...cut.supervisions].sort((a, b) => a.start - b.start);
  const start = Math.min(...ordered.map((one) => one.start));
  const end = Math.max(...ordered.map((one) => one.start + one.duration));
  const text = textOf(ordered, "");
  const kinds = Object.keys(first.alignment ?? {}).filter((kind) => ordered.every(({ alignment }) => alignment?.[kind]));
  const alignment = kinds.length === 0 ? undefined : Object.fromEntries(kinds.map((kind) => [kind, ordered.flatMap((one) => one.alignment?.[kind] ?? [])]));
  return { ...cut, text, supervisions: [{ ...first, id: ordered.map(({ id }) => id).join("-"), start, duration: digits(end - start), text, alignment }] };
}

/** On which side of a cut silence is added. */
export type PadDirection = "left" | "right" | "both";

/** Adds silence up to a duration; longer cuts stay. */
export function padCut(cut: PlayedCut, duration: number, direction: PadDirection = "right"): PlayedCut {
  if (!(duration > cut.duration)) return cut;
  const silence = digits(duration - cut.duration);
  const offset = direction === "right" ? 0 : direction === "left" ? silence : digits(silence / 2);
  return changed(cut, { kind: "row", parts: [{ of: playedOf(cut), offset }] }, duration, offset === 0 ? cut.supervisions : cut.supervisions.map((one) => shifted(one, offset)));
}

/**
 * A part of a cut, ending at the cut's end at the latest. Supervisions that overlap it stay, and may reach beyond its edges.
 * @param keepExcessive false keeps supervisions that lie within the part alone
 * @param leastOverlap supervisions that overlap by this share of the shorter of the two, or by less, are left out
 * @throws ConfigError CONFIG_BAD_VALUE where nothing is left
 */
export function truncateCut(
  cut: PlayedCut,
  { offset = 0, duration = cut.duration, keepExcessive = true, leastOverlap = 0 }: { offset?: number; duration?: number; keepExcessive?: boolean; leastOverlap?: number },
): PlayedCut {
  const left = digits(Math.min(duration, cut.duration - offset));
  if (!(offset >= 0 && left > 0))
    throw new ConfigError("CONFIG_BAD_VALUE", { at: cut.origin, message: `a part of ${duration} s from ${offset} s on, of a cut of ${cut.duration} s` });
  if (offset === 0 && left === cut.duration) return cut;
  const end = offset + left;
  const supervisions = cut.supervisions
    .filter((one) => {
      const last = one.start + one.duration;
      if (!keepExcessive && (one.start < offset - 1e-3 || last > end + 1e-3)) return false;
      return Math.min(last, end) - Math.max(one.start, offset) > leastOverlap * Math.min(one.duration, left);
    })
    .map((one) => shifted(one, -offset));
  const text = supervisions.length === 0 && cut.supervisions.length > 0 ? "" : textOf(supervisions, cut.text);
  // Of what is read from a file, the part alone is read.
  if (!cut.sound && !cut.tracks && (cut.offset !== undefined || cut.audioPath === "" || !cut.member))
    return {
      ...cut,
      duration: left,
      offset: (cut.offset ?? 0) + offset * cut.speed,
      features: cut.features && { ...cut.features, start: digits(cut.features.start + offset), duration: left },
      supervisions,
      text,
    };
  return { ...changed(cut, { kind: "part", of: playedOf(cut), offset }, left, supervisions), text };
}

/** How many windows a cut is cut into. Source: compute_num_windows. */
export function windowCount(duration: number, window: number, hop = window): number {
  const whole = Math.ceil(digits(Math.max(duration - window, 0) / hop));
  return whole + (digits(duration - whole * hop) > 0 ? 1 : 0);
}

/**
 * A cut as windows of some seconds, each beginning `hop` seconds after the one before; the last one may be shorter. Ids are numbered: "id-0".
 * @param keepExcessive as in `truncateCut`
 */
export function cutIntoWindows(cut: PlayedCut, { window, hop = window, keepExcessive = true }: { window: number; hop?: number; keepExcessive?: boolean }): PlayedCut[] {
  if (!(window > 0 && hop > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "cutIntoWindows", message: `windows of ${window} s every ${hop} s, expected seconds above 0` });
  return Array.from({ length: windowCount(cut.duration, window, hop) }, (_, i) => ({
    ...truncateCut(cut, { offset: digits(i * hop), duration: window, keepExcessive, leastOverlap: 0.01 }),
    id: `${cut.id}-${i}`,
  }));
}
