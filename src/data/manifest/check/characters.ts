/**
 * Characters that are unusual for a language: invisible ones, symbols, letters of another script, and letters that its alphabet has not.
 * Source of the alphabets: the main exemplar characters of Unicode's CLDR, and what loan words commonly bring.
 */

/** Letters beside a to z. A language that is not here is judged by its script alone. */
const letters: Readonly<Record<string, string>> = {
  en: "",
  de: "äöüß",
  fr: "àâæçéèêëîïôœùûüÿ",
  es: "áéíñóúü",
  it: "àéèìíîòóùú",
  pt: "áâãàçéêíóôõúü",
  nl: "áâäèéêëíïóôöúûüĳ",
  pl: "ąćęłńóśźż",
  cs: "áčďéěíňóřšťúůýž",
  sk: "áäčďéíĺľňóôŕšťúýž",
  sl: "čšž",
  hr: "čćđšž",
  ro: "ăâîșțşţ",
  hu: "áéíóöőúüű",
  tr: "âçğıİîöşüû",
  sv: "åäöéàü",
  da: "æøåéü",
  nb: "æøåéèêóòôà",
  no: "æøåéèêóòôà",
  fi: "äöåšž",
  et: "äöõüšž",
  lv: "āčēģīķļņšūž",
  lt: "ąčęėįšųūž",
  mt: "àċèġħìòùż",
  ru: "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
  uk: "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
  bg: "абвгдежзийклмнопрстуфхцчшщъьюя",
  el: "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ",
};
const cyrillic = new Set(["ru", "uk", "bg"]);
const scripts =
  "Latin Cyrillic Greek Arabic Hebrew Devanagari Bengali Gurmukhi Gujarati Tamil Telugu Kannada Malayalam Sinhala Thai Lao Myanmar Khmer Georgian Armenian Ethiopic Han Hiragana Katakana Hangul Tibetan Mongolian".split(
    " ",
  );
const scriptPatterns = scripts.map((name) => [name, new RegExp(`\\p{Script=${name}}`, "u")] as const);
/** Scripts that are written together. */
const companions: Readonly<Record<string, readonly string[]>> = { Han: ["Hiragana", "Katakana"], Hiragana: ["Han", "Katakana"], Katakana: ["Han", "Hiragana"], Hangul: ["Han"] };

const scriptOf = (character: string): string | undefined => scriptPatterns.find(([, pattern]) => pattern.test(character))?.[0];
const language = (code: string): string => code.toLowerCase().split(/[-_]/)[0] as string;

interface Seen {
  count: number;
  at: string;
}

/** A character that should be looked at. */
export interface UnusualCharacter {
  character: string;
  lang: string;
  count: number;
  /** Its first line. */
  at: string;
  why: string;
}

/** "é" (U+00E9), or the number alone for what cannot be seen. */
export function showCharacter(character: string): string {
  const code = `U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, "0")}`;
  return /[\p{C}\p{Z}\p{M}]/u.test(character) ? code : `"${character}" (${code})`;
}

/** Counts characters by language, in memory that grows with the number of different ones alone. */
export class CharacterCounts {
  private readonly byLang = new Map<string, Map<number, Seen>>();

  add(lang: string, text: string, at: string): void {
    let seen = this.byLang.get(lang);
    if (seen === undefined) {
      seen = new Map();
      this.byLang.set(lang, seen);
    }
    for (let i = 0; i < text.length; i++) {
      const point = text.codePointAt(i) as number;
      if (point > 0xffff) i++;
      const one = seen.get(point);
      if (one !== undefined) one.count++;
      else seen.set(point, { count: 1, at });
    }
  }

  /** The unusual ones, the most frequent first. Control characters are not among them: they are errors of their own. */
  unusual(): UnusualCharacter[] {
    const found: UnusualCharacter[] = [];
    for (const [lang, seen] of this.byLang) {
      const main = this.mainScript(lang, seen);
      for (const [point, { count, at }] of seen) {
        const character = String.fromCodePoint(point);
        const why = whyUnusual(character, lang, main);
        if (why !== undefined) found.push({ character, lang, count, at, why });
      }
    }
    return found.sort((a, b) => b.count - a.count);
  }

  private mainScript(lang: string, seen: ReadonlyMap<number, Seen>): string | undefined {
    const code = language(lang);
    if (code in letters) return cyrillic.has(code) ? "Cyrillic" : code === "el" ? "Greek" : "Latin";
    const counts = new Map<string, number>();
    for (const [point, { count }] of seen) {
      const script = scriptOf(String.fromCodePoint(point));
      if (script !== undefined) counts.set(script, (counts.get(script) ?? 0) + count);
    }
    return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
  }
}

function whyUnusual(character: string, lang: string, main: string | undefined): string | undefined {
  if (/[ \p{Cc}]/u.test(character)) return undefined;
  if (character === "\ufffd") return "the sign for a character that was lost";
  if ((character === "\u200c" || character === "\u200d") && main !== "Latin") return undefined; // joiners are a part of the spelling of several scripts
  if (/[\p{C}]/u.test(character)) return "invisible, or no character";
  if (/[\p{Z}]/u.test(character)) return "a space of another kind";
  if (/[\p{S}]/u.test(character)) return "a symbol";
  if (/[\p{No}\p{Nl}]/u.test(character)) return "a special number";
  if (/\p{P}|\p{Nd}/u.test(character)) return undefined;
  const script = scriptOf(character);
  if (script !== undefined && main !== undefined && script !== main && !companions[main]?.includes(script)) return `${script}, where most letters are ${main}`;
  const alphabet = letters[language(lang)];
  if (alphabet === undefined || !/\p{L}/u.test(character)) return undefined;
  const small = character.toLowerCase();
  if (alphabet.includes(small) || alphabet.includes(character) || (script === "Latin" && /^[a-z]$/.test(small) && !cyrillic.has(language(lang)))) return undefined;
  return `not a letter of ${lang}`;
}
