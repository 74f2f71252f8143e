/**
 * lhotse's transforms, which manifests keep by name for the time when audio is loaded, as changes of a cut's sound. Each is applied to the stretch that a
 * cut plays, as lhotse does. Source: lhotse, audio/recording.py and augmentation/.
 */
import type { SourceCut } from "./cut.ts";
import { bad, type Dict, isDict, listOf, show } from "./lhotseJson.ts";
import { type Played, playedOf, type Sound } from "./sound.ts";

/** A change that leaves durations as they are. */
type Change = (of: Played) => Sound;

/** What a list of transforms does. */
export interface Transforms {
  /** Product of all speeds. */
  speed: number;
  /** In their order, a number for a speed; empty where speeds are all there is. */
  others: readonly (Change | number)[];
}

/** Seconds of early reflections. Source: lhotse, ReverbWithImpulseResponse. */
const early = 0.05;

function responseOf(kwargs: Dict, at: string, parse: (cut: Dict) => SourceCut): SourceCut {
  const { rir, early_only: earlyOnly, rir_channels: channels, rir_generator: generator } = kwargs;
  if (!isDict(rir))
    return bad(
      at,
      generator ? "reverberation by lhotse's generator of rooms, which is another model than serac's" : "reverberation without an impulse response",
      "give recordings of rooms (rir)",
    );
  const [channel = 0, ...more] = listOf(channels);
  if (more.length > 0) bad(at, `reverberation by ${more.length + 1} channels of a response, of which one can be used`, "choose one: rir_channels=[0]");
  const cut =
    rir["recording"] === undefined ? { type: "MonoCut", id: rir["id"], start: 0, duration: rir["duration"], channel, recording: rir, supervisions: [] } : { ...rir, channel };
  const response = parse(cut);
  return earlyOnly && response.duration > early ? { ...response, duration: early, offset: response.offset ?? 0 } : response;
}

/**
 * Reads a list of transforms. Resampling changes nothing here: whatever renders a cut resamples it anyway.
 * @param needsAudio false where features are stored: then only the speed, which moves times, matters
 * @param parse reads the cut of an impulse response
 * @throws ManifestError CUT_BAD for a transform that is not there
 */
export function transformsOf(list: unknown, at: string, needsAudio: boolean, parse: (cut: Dict) => SourceCut): Transforms {
  let speed = 1;
  const others: (Change | number)[] = [];
  for (const transform of listOf(list)) {
    const name = isDict(transform) ? transform["name"] : undefined;
    const kwargs: Dict = isDict(transform) && isDict(transform["kwargs"]) ? transform["kwargs"] : {};
    const { factor } = kwargs;
    const isFactor = typeof factor === "number" && factor > 0;
    if (name === "Speed" && isFactor) {
      speed *= factor;
      others.push(factor);
    } else if (!needsAudio || name === "Resample") continue;
    else if (name === "Volume" && isFactor) others.push((of) => ({ kind: "volume", of, factor }));
    else if (name === "ReverbWithImpulseResponse") {
      const cut = responseOf(kwargs, at, parse);
      others.push((of) => ({ kind: "reverb", of, response: { kind: "recording", cut }, normalize: kwargs["normalize_output"] !== false }));
    } else
      bad(
        at,
        `there is the transform ${show(name)}, which is not applied to audio here (Speed, Volume, Resample and ReverbWithImpulseResponse are)`,
        "store features, or save the audio as it shall sound (cuts.save_audios)",
      );
  }
  return { speed, others: others.every((one) => typeof one === "number") ? [] : others };
}

/** A cut of a recording with transforms; its `speed` and `offset` are those of all speeds together. */
export function withTransforms(cut: SourceCut, { speed, others }: Transforms): SourceCut {
  if (others.length === 0) return cut;
  const original = cut.duration * speed;
  let played: Played = playedOf({ ...cut, speed: 1, duration: original });
  for (const change of others) {
    if (typeof change === "number") played = { sound: { kind: "speed", of: played, factor: change }, duration: played.duration / change };
    else played = { ...played, sound: change(played) };
  }
  return { ...cut, speed: 1, sound: played.sound };
}
