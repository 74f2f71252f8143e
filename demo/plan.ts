/** Who says what, drawn ahead from the seed, so that workers in any number and order make the same speech. */
import { Random } from "../src/util/random.ts";
import { digitText, promptText, randomDigits } from "./digits.ts";
import type { Take } from "./engines.ts";
import type { Voice } from "./voices.ts";
import { humanVoices } from "./voices.ts";

/** One line of a manifest, and how its audio is made. */
export interface Utterance {
  /** `set/name`: the file's path in the output folder without its ending. */
  id: string;
  set: SetName;
  text: string;
  speaker: string;
  engine: string;
  /** Files that are joined: takes of the plan by id, or whole paths of recordings. */
  parts: readonly string[];
  /** Seconds of silence before each part and after the last. Empty: the file as the engine spoke it. */
  gaps: readonly number[];
  /** Of the random path that the voice takes to the file; undefined: none, the voice as it is. */
  distortion: number | undefined;
}

export type SetName = "train" | "valid" | "test-synthetic" | "test-human";

export interface Plan {
  takes: Take[];
  utterances: Utterance[];
}

export interface PlanOptions {
  seed: number;
  /** Hours of training speech, by an estimate of 0.45 s a digit. */
  hours: number;
  training: readonly Voice[];
  heldOut: readonly Voice[];
}

const sizes = { valid: 200, testSyntheticPerVoice: 140, testHuman: 100 } as const;
const usesPerTake = 4; // a spoken string is heard over four paths
const secondsPerUtterance = 2.4;
const wordShare = 0.35; // of the hours, in single words, from which a network learns first what the words are
const secondsPerWord = 0.65;

/** Draws a plan. Strings of three and more digits that a test or validation set holds are never trained on. */
export function makePlan({ seed, hours, training, heldOut }: PlanOptions): Plan {
  const random = new Random(seed);
  const plan: Plan = { takes: [], utterances: [] };
  const reserved = new Set<string>();
  planTests(plan, heldOut, reserved, random.fork(1));
  planHuman(plan, reserved, random.fork(2));
  planStrings(plan, { set: "valid", count: sizes.valid, uses: 1, voices: training, reserved }, random.fork(3));
  const utterances = Math.round((hours * 3600) / secondsPerUtterance);
  const strings = Math.round((0.55 * utterances) / usesPerTake);
  planStrings(plan, { set: "train", count: strings, uses: usesPerTake, voices: training, reserved }, random.fork(4));
  const words = Math.round((wordShare * hours * 3600) / secondsPerWord);
  planJoined(plan, { count: utterances - strings * usesPerTake, words, voices: training, reserved }, random.fork(5));
  const used = new Set(plan.utterances.flatMap(({ parts }) => parts));
  return { takes: plan.takes.filter(({ id }) => used.has(id)), utterances: plan.utterances };
}

function number(i: number): string {
  return String(i).padStart(5, "0");
}

/** Held-out voices say whole strings, and nothing is done to them. */
function planTests(plan: Plan, voices: readonly Voice[], reserved: Set<string>, random: Random): void {
  for (const voice of voices) {
    for (let i = 0; i < sizes.testSyntheticPerVoice; i++) {
      const digits = randomDigits(random, { min: 3, max: 7 });
      const id = `test-${voice.id}-${number(i)}`;
      const text = digitText(digits);
      reserved.add(text);
      plan.takes.push({ id, voice, text: promptText(digits, 0.2, random), stretch: 0.9 + 0.4 * random.uniform(), pitch: 0.9 + 0.2 * random.uniform() });
      plan.utterances.push({ id: `test-synthetic/${id}`, set: "test-synthetic", text, speaker: voice.id, engine: voice.engine, parts: [id], gaps: [], distortion: undefined });
    }
  }
}

/** Recordings of single digits by a person, joined at their own rate. */
function planHuman(plan: Plan, reserved: Set<string>, random: Random): void {
  for (const { id: speaker, source, folder, extension } of humanVoices) {
    for (let i = 0; i < sizes.testHuman; i++) {
      const digits = randomDigits(random, { min: 3, max: 7 });
      const text = digitText(digits);
      reserved.add(text);
      const parts = digits.map((digit) => `${folder}/${digit}${extension}`);
      const gaps = [...digits.map(() => 0.2 * random.uniform()), 0.1];
      plan.utterances.push({ id: `test-human/${speaker}-${number(i)}`, set: "test-human", text, speaker, engine: source, parts, gaps, distortion: undefined });
    }
  }
}

function drawVoice(voices: readonly Voice[], random: Random): Voice {
  let left = random.uniform() * voices.reduce((sum, voice) => sum + voice.weight, 0);
  return voices.find((voice) => (left -= voice.weight) < 0) ?? (voices[voices.length - 1] as Voice);
}

/** Engines speak fast by default; people who dictate digits do not, and single words are said slowest. */
function drawStretch(random: Random, slowest: number): number {
  return 0.8 * (slowest / 0.8) ** random.uniform();
}

function drawPitch(random: Random): number {
  return Math.exp(0.15 * Math.max(-2, Math.min(2, random.normal()))); // 0.74 to 1.35
}

function drawTrainingDigits(reserved: ReadonlySet<string>, random: Random): number[] {
  for (;;) {
    const digits = randomDigits(random, { min: 1, max: 7 });
    if (digits.length < 3 || !reserved.has(digitText(digits))) return digits;
  }
}

/** Voices say whole strings, so that words run into each other as they do in an engine's speech. */
function planStrings(
  plan: Plan,
  { set, count, uses, voices, reserved }: { set: "train" | "valid"; count: number; uses: number; voices: readonly Voice[]; reserved: Set<string> },
  random: Random,
): void {
  for (let i = 0; i < count; i++) {
    const voice = drawVoice(voices, random);
    const digits = drawTrainingDigits(reserved, random);
    const text = digitText(digits);
    if (set === "valid" && digits.length >= 3) reserved.add(text);
    const take = `${set}-string-${number(i)}`;
    const pauses = random.choice([0, 0, 0.3, 1]);
    plan.takes.push({ id: take, voice, text: promptText(digits, pauses, random), stretch: drawStretch(random, 1.7), pitch: drawPitch(random) });
    for (let use = 0; use < uses; use++) {
      const gaps = [0.25 * random.uniform(), 0.25 * random.uniform()];
      const id = `${set}/string-${number(i)}-${use}`;
      plan.utterances.push({ id, set, text, speaker: voice.id, engine: voice.engine, parts: [take], gaps, distortion: random.uint32() });
    }
  }
}

/** Voices say single digits, which are joined with gaps of many lengths, as announcements are; and some stand alone, half of them as they were said. */
function planJoined(plan: Plan, { count, words, voices, reserved }: { count: number; words: number; voices: readonly Voice[]; reserved: Set<string> }, random: Random): void {
  // Each entry holds, for one voice at one pace and pitch, the takes of the ten digits.
  const banks = new Map<Voice, string[][]>();
  for (const voice of voices) {
    const settings = Math.max(1, Math.min(6, Math.round(voice.weight / 2)));
    const bank: string[][] = [];
    for (let setting = 0; setting < settings; setting++) {
      const [stretch, pitch, end] = [drawStretch(random, 2.2), drawPitch(random), random.choice([".", ".", ",", "?"])];
      const ids = Array.from({ length: 10 }, (_, digit) => `train-digit-${voice.id}-${setting}-${digit}`);
      ids.forEach((id, digit) => plan.takes.push({ id, voice, text: digitText([digit]) + end, stretch, pitch }));
      bank.push(ids);
    }
    banks.set(voice, bank);
  }
  for (let i = 0; i < count; i++) {
    const voice = drawVoice(voices, random);
    const digits = drawTrainingDigits(reserved, random);
    const bank = banks.get(voice) as string[][];
    const [shortest, longest] = random.choice([
      [0, 0.08],
      [0, 0.08],
      [0.05, 0.3],
      [0.1, 0.5],
    ] as const);
    const steady = random.uniform() < 0.6 ? random.choice(bank) : undefined; // or another tone for each word
    const parts = digits.map((digit) => (steady ?? random.choice(bank))[digit] as string);
    const gaps = digits.map((_, k) => (k === 0 ? 0.25 * random.uniform() : shortest + (longest - shortest) * random.uniform()));
    gaps.push(0.25 * random.uniform());
    const id = `train/joined-${number(i)}`;
    plan.utterances.push({ id, set: "train", text: digitText(digits), speaker: voice.id, engine: voice.engine, parts, gaps, distortion: random.uint32() });
  }
  for (let i = 0; i < words; i++) {
    const voice = drawVoice(voices, random);
    const digit = random.integer(0, 10);
    const parts = [random.choice(banks.get(voice) as string[][])[digit] as string];
    const gaps = [0.06 * random.uniform(), 0.06 * random.uniform()];
    const distortion = random.uniform() < 0.5 ? random.uint32() : undefined;
    plan.utterances.push({ id: `train/word-${number(i)}`, set: "train", text: digitText([digit]), speaker: voice.id, engine: voice.engine, parts, gaps, distortion });
  }
}
