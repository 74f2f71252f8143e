/**
 * The prompt slots of Canary models: v1 (`canary`), and Flash and v2 (`canary2`).
 * Promises: every documented and coded spelling gives one normal value, what is missing gives its default, and what NeMo would refuse
 * or turn into something else is an error. NeMo itself takes "Yes" and then writes the token for "no", and refuses emotions by their names.
 * Source: NeMo, common/prompts/canary.py and canary2.py.
 */
import { ManifestError } from "../../util/errors.ts";
import type { ManifestObject } from "./lines.ts";

/** `v1`: Canary 1B. `v2`: Canary Flash, Canary v2 and later. */
export type CanaryVersion = "v1" | "v2";

/** The emotions that the tokenizers have. */
export const canaryEmotions = ["undefined", "neutral", "happy", "sad", "angry"] as const;
export type CanaryEmotion = (typeof canaryEmotions)[number];

/** The slots of a prompt, in their normal spelling. */
export interface CanarySlots {
  sourceLang: string;
  targetLang: string;
  /** v1 alone; in v2 it follows from the languages. */
  task?: "asr" | "ast";
  pnc: boolean;
  itn: boolean;
  timestamp: boolean;
  diarize: boolean;
  /** Text before the prompt; v2. */
  decodercontext: string;
  emotion: CanaryEmotion;
}

const switches = ["pnc", "itn", "timestamp", "diarize"] as const;
type Switch = (typeof switches)[number];
/** Model card and prompt format of v2. */
const defaults: Record<Switch, boolean> = { pnc: true, itn: false, timestamp: false, diarize: false };
const tasks: Readonly<Record<string, "asr" | "ast">> = {
  asr: "asr",
  transcribe: "asr",
  "<|transcribe|>": "asr",
  ast: "ast",
  translate: "ast",
  "<|translate|>": "ast",
  s2t_translation: "ast",
};

const show = (value: unknown): string => JSON.stringify(value) ?? String(value);

class Reader {
  private readonly line: ManifestObject;
  private readonly at: string;
  private readonly found: ManifestError[];

  constructor(line: ManifestObject, at: string, found: ManifestError[]) {
    this.line = line;
    this.at = at;
    this.found = found;
  }

  bad(message: string, fix: string): void {
    this.found.push(new ManifestError("CANARY_BAD_SLOT", { at: this.at, message, fix }));
  }

  language(key: "source_lang" | "target_lang"): string {
    const value = this.line[key];
    if (value === undefined || value === null)
      this.bad(`no "${key}", which Canary needs`, `add the language of the ${key === "source_lang" ? "speech" : "text"}, for instance "en"`);
    else if (typeof value !== "string" || value === "") this.bad(`"${key}" is ${show(value)}, expected a language`, 'write a code, for instance "en"');
    else return /^<\|(.+)\|>$/.exec(value)?.[1] ?? value;
    return "";
  }

  switch(key: Switch, required: boolean): boolean {
    const value = this.line[key];
    if (value === undefined || value === null) {
      if (required) this.bad(`no "${key}", which Canary v1 needs`, `add "${key}": "yes" or "no"`);
      return defaults[key];
    }
    const spelling = String(value).toLowerCase();
    if (["yes", "true", "1", key, `<|${key}|>`].includes(spelling)) return true;
    if (["no", "false", "0", `no${key}`, `<|no${key}|>`].includes(spelling)) return false;
    this.bad(`"${key}" is ${show(value)}, expected yes or no`, `write "${key}": "yes" or "no"`);
    return defaults[key];
  }

  task(): "asr" | "ast" {
    const value = this.line["task"] ?? this.line["taskname"];
    if (value === undefined || value === null) this.bad('no "task", which Canary v1 needs', 'add "task": "asr" or "ast"');
    else if (typeof value === "string" && Object.hasOwn(tasks, value)) return tasks[value] as "asr" | "ast";
    else this.bad(`"task" is ${show(value)}, expected asr or ast`, 'write "task": "asr" or "ast"');
    return "asr";
  }

  emotion(): CanaryEmotion {
    const value = this.line["emotion"] ?? "undefined";
    const name = typeof value === "string" ? (/^<\|emo:(\w+)\|>$/.exec(value)?.[1] ?? value).toLowerCase() : undefined;
    const emotion = canaryEmotions.find((one) => one === name);
    if (emotion === undefined) this.bad(`"emotion" is ${show(value)}, expected one of ${canaryEmotions.join(", ")}`, 'leave it out, or write "emotion": "neutral"');
    return emotion ?? "undefined";
  }

  context(): string {
    const value = this.line["decodercontext"] ?? "";
    if (typeof value !== "string") this.bad(`"decodercontext" is ${show(value)}, expected a text`, "write it as a string, or leave it out");
    else if (value.includes("<|")) this.bad('"decodercontext" holds "<|", which the tokenizer takes for the beginning of a special token', "take it out");
    else return value;
    return "";
  }
}

/** True where a line has a key that only Canary's manifests have. */
export function isCanary(line: ManifestObject): boolean {
  return line["source_lang"] !== undefined || line["target_lang"] !== undefined || line["pnc"] !== undefined;
}

const onlyV2 = ["itn", "timestamp", "diarize", "decodercontext", "emotion"] as const;

/** The version that a line was written for: v1 where it has a task, which v2 has not, and none of the keys that v2 alone has. */
export function canaryVersionOf(line: ManifestObject): CanaryVersion {
  return (line["task"] ?? line["taskname"]) === undefined || onlyV2.some((key) => line[key] !== undefined) ? "v2" : "v1";
}

/** What stands in the keys of Canary. */
export interface CanaryExamination {
  slots: CanarySlots;
  errors: ManifestError[];
  /** What is ignored, and probably not meant: `task` with v2. */
  warnings: ManifestError[];
}

/** The slots of a line, and everything that is wrong with them. @param at file:line, for the errors */
export function examineCanary(line: ManifestObject, { version = "v2", at = "line" }: { version?: CanaryVersion; at?: string } = {}): CanaryExamination {
  const errors: ManifestError[] = [];
  const reader = new Reader(line, at, errors);
  const slots: CanarySlots = {
    sourceLang: reader.language("source_lang"),
    targetLang: reader.language("target_lang"),
    ...(version === "v1" ? { task: reader.task() } : {}),
    pnc: reader.switch("pnc", version === "v1"),
    itn: reader.switch("itn", false),
    timestamp: reader.switch("timestamp", false),
    diarize: reader.switch("diarize", false),
    decodercontext: reader.context(),
    emotion: reader.emotion(),
  };
  const warnings: ManifestError[] = [];
  if (version === "v2" && (line["task"] ?? line["taskname"]) !== undefined)
    warnings.push(
      new ManifestError("CANARY_BAD_SLOT", {
        at,
        message: '"task" has no place in the prompt of Canary Flash and v2 and is ignored: the languages say what to do',
        fix: 'take "task" out; equal languages transcribe, different ones translate',
      }),
    );
  if (version === "v1" && (slots.timestamp || slots.decodercontext !== ""))
    reader.bad("timestamps and context have no place in the prompt of Canary v1", "leave them out, or use version v2");
  return { slots, errors, warnings };
}

/**
 * The slots of a line, normalised and with defaults.
 * @throws ManifestError CANARY_BAD_SLOT with the first thing that is wrong
 */
export function readCanary(line: ManifestObject, options: { version?: CanaryVersion; at?: string } = {}): CanarySlots {
  const { slots, errors } = examineCanary(line, options);
  if (errors[0]) throw errors[0];
  return slots;
}

/** The slots as keys of a manifest, spelled so that every release of NeMo reads what is meant. What is a default of v2 is left out of it. */
export function writeCanary(slots: CanarySlots, { version = "v2" }: { version?: CanaryVersion } = {}): Record<string, string> {
  const keys: Record<string, string> = { source_lang: slots.sourceLang, target_lang: slots.targetLang };
  const word = (value: boolean): string => (value ? "yes" : "no");
  if (version === "v1") return { ...keys, task: slots.task ?? (slots.sourceLang === slots.targetLang ? "asr" : "ast"), pnc: word(slots.pnc) };
  keys["pnc"] = word(slots.pnc);
  for (const key of ["itn", "timestamp", "diarize"] as const) if (slots[key] !== defaults[key]) keys[key] = word(slots[key]);
  if (slots.decodercontext !== "") keys["decodercontext"] = slots.decodercontext;
  if (slots.emotion !== "undefined") keys["emotion"] = `<|emo:${slots.emotion}|>`;
  return keys;
}
