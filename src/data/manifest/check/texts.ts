/** Checks transcripts: their kind, what is in them, and whether their tokens fit into the audio. */
import { encoderFrames, featureFrames, neededFrames } from "../../filter.ts";
import { isSpans, textOf } from "../keys.ts";
import { CharacterCounts, showCharacter } from "./characters.ts";
import type { Issues } from "./kinds.ts";
import { type CheckedLine, showSeconds } from "./line.ts";

/** What tells tokens from a text: a SentencePiece model, for instance. */
export interface CheckTokenizer {
  encode(text: string): ArrayLike<number>;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controls = /[\u0000-\u001f\u007f-\u009f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controlRuns = /[\u0000-\u001f\u007f-\u009f]+/;

/** Parts with a space between, and none around. (A pattern that also takes the spaces on both sides would look at a long run of them again from each place.) */
const joinParts = (parts: readonly string[]): string =>
  parts
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .join(" ");

export class Texts {
  private readonly characters = new CharacterCounts();

  /** @returns the text that counts from here on; undefined where it is in a file, or there is none */
  check(line: CheckedLine): string | undefined {
    const { value, at } = line;
    const written = value["text"];
    if (written === undefined && typeof value["text_filepath"] === "string") return undefined;
    if (written !== undefined && typeof written !== "string" && !isSpans(written)) {
      const message = `"text" is ${JSON.stringify(written)?.slice(0, 60)}`;
      const keep = written === null ? "" : typeof written === "number" ? String(written) : undefined;
      if (keep === undefined) line.lost("badText", message);
      else line.found("badText", message, (mender) => mender.set("badText", message, "text", keep));
      return keep;
    }
    const text = textOf(value) ?? "";
    if (text.trim() === "") {
      line.found("emptyText", written === undefined ? 'no "text"' : "the text is empty");
      return text;
    }
    const lang = value["target_lang"] ?? value["lang"];
    this.characters.add(typeof lang === "string" ? lang.replace(/^<\|(.+)\|>$/, "$1") : "", text, at);
    const bad = controls.exec(text)?.[0];
    if (bad === undefined) return text;
    const beginning = [...text.slice(0, 80)].slice(0, 40).join("");
    const message = `${showCharacter(bad)} in "${beginning.replace(/[\p{C}]/gu, "\u00b7")}"`;
    const mended = joinParts(text.split(controlRuns));
    line.found("controlCharacter", message, typeof written === "string" ? (mender) => mender.set("controlCharacter", message, "text", mended) : undefined);
    return mended;
  }

  /** What only the whole tells. */
  finish(issues: Issues): void {
    for (const { character, lang, count, at, why } of this.characters.unusual())
      issues.add("unusualCharacter", at, `${showCharacter(character)}${lang === "" ? "" : ` in ${lang}`}, ${count} times: ${why}`, { count });
  }
}

/** More tokens than the encoder has frames, so that no alignment exists. @param ctc counts a blank between equal tokens */
export function checkTokens(line: CheckedLine, text: string, duration: number, tokenizer: CheckTokenizer, { ctc, sampleRate }: { ctc: boolean; sampleRate: number }): void {
  const frames = encoderFrames(featureFrames(duration, sampleRate));
  const tokens = tokenizer.encode(text);
  const needed = neededFrames(tokens, ctc);
  if (needed > frames) line.lost("tooManyTokens", `${tokens.length} tokens need ${needed} frames, ${showSeconds(duration)} give ${frames}`);
}
