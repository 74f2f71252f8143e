/**
 * The demo's speakers, and who of them is never trained on.
 *
 * Held out, decided before anything was trained: SVOX Pico as a whole (the most natural of the engines, and the one engine that
 * training never hears) and two of Flite's voices, built from recordings of people whom no training voice was built from.
 */
export type EngineName = "flite" | "festival" | "espeak" | "rhvoice" | "pico";

export interface Voice {
  /** `engine-voice`, the manifest's `speaker`. */
  id: string;
  engine: EngineName;
  /** The engine's own name of the voice. */
  name: string;
  /** The engine's usual mean pitch in hertz, where the pitch is given in hertz. */
  pitch?: number;
  /** How much of the training speech this voice gets, relative to the others. 0 for voices held out. */
  weight: number;
}

const natural: Voice[] = [
  { id: "flite-kal16", engine: "flite", name: "kal16", pitch: 105, weight: 10 },
  { id: "flite-slt", engine: "flite", name: "slt", pitch: 170, weight: 14 },
  { id: "festival-kal", engine: "festival", name: "kal_diphone", pitch: 105, weight: 6 },
  { id: "festival-ked", engine: "festival", name: "ked_diphone", pitch: 100, weight: 12 },
  { id: "festival-slt-hts", engine: "festival", name: "cmu_us_slt_arctic_hts", weight: 8 },
  // RHVoice's slt is left out: two voices of that person train already.
  { id: "rhvoice-alan", engine: "rhvoice", name: "alan", weight: 14 },
  { id: "rhvoice-bdl", engine: "rhvoice", name: "bdl", weight: 12 },
  { id: "rhvoice-clb", engine: "rhvoice", name: "clb", weight: 12 },
];

const espeakAccents = ["en-us", "en-us", "en-us", "en-gb", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-029", "en-us-nyc"];
// Variants that a listener takes for a person; the robots, whispers and croaks of the package are left out.
const espeakVariants = ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5", "klatt", "klatt2", "klatt3", "klatt4", "klatt5", "klatt6"]
  .concat(["Andy", "Annie", "Alicia", "Denis", "Gene", "Lee", "Mario", "Michael", "Mike", "adam", "anika", "antonio", "aunty", "belinda", "benjamin", "caleb"])
  .concat(["david", "ed", "edward", "grandma", "grandpa", "john", "linda", "max", "michel", "norbert", "paul", "quincy", "rob", "robert", "shelby", "steph", "travis"])
  .concat(["victor", "zac"]);

const espeak: Voice[] = espeakVariants.map((variant, i) => {
  const name = `${espeakAccents[i % espeakAccents.length] as string}+${variant}`;
  return { id: `espeak-${name}`, engine: "espeak", name, weight: 22 / espeakVariants.length };
});

export const trainingVoices: readonly Voice[] = [...natural, ...espeak];

export const heldOutVoices: readonly Voice[] = [
  { id: "pico-en-US", engine: "pico", name: "en-US", weight: 0 },
  { id: "pico-en-GB", engine: "pico", name: "en-GB", weight: 0 },
  { id: "flite-rms", engine: "flite", name: "rms", pitch: 110, weight: 0 },
  { id: "flite-awb", engine: "flite", name: "awb", pitch: 130, weight: 0 },
];

/** Recordings of people, one file a digit; heard only in tests. */
export const humanVoices = [
  { id: "human-allison", source: "asterisk-core-sounds-en-wav", folder: "/usr/share/asterisk/sounds/en_US_f_Allison/digits", extension: ".wav" },
] as const;

/**
 * Who trains and who tests.
 * @param nonFree false where nothing of Debian's component non-free is to be had, or wanted: RHVoice and Pico are missing then, Festival's ked is
 *   held out in Pico's place, and every engine is trained on
 */
export function chooseVoices({ nonFree = true }: { nonFree?: boolean } = {}): { training: Voice[]; heldOut: Voice[] } {
  if (nonFree) return { training: [...trainingVoices], heldOut: [...heldOutVoices] };
  const isKed = ({ name }: Voice): boolean => name === "ked_diphone";
  const isFree = ({ engine }: Voice): boolean => engine !== "rhvoice" && engine !== "pico";
  return { training: trainingVoices.filter((voice) => isFree(voice) && !isKed(voice)), heldOut: [...trainingVoices.filter(isKed), ...heldOutVoices.filter(isFree)] };
}
