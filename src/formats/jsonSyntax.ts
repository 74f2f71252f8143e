/** Where a text stops being JSON. Node's own messages do not always say. */

const space = /[ \t\n\r]*/y;
const literal = /true|false|null/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const escapeSequence = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * @returns the index of the first character at which `text` cannot be JSON any more (its length when it ends too early), or -1 when it is JSON
 */
export function jsonErrorAt(text: string): number {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  const takeChar = (char: string): boolean => {
    take(space);
    if (text[at] !== char) return false;
    at++;
    return true;
  };
  const takeString = (): boolean => {
    take(space);
    if (text[at] !== '"') return false;
    at++;
    // A loop: a pattern for the whole string would need more and more of the stack.
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === 0x22) {
        at++;
        return true;
      }
      if (code < 0x20) return false;
      if (code !== 0x5c) continue;
      escapeSequence.lastIndex = at;
      if (!escapeSequence.test(text)) return false;
      at = escapeSequence.lastIndex - 1;
    }
    return false;
  };
  const closers: ("]" | "}")[] = []; // a stack of our own: deep nesting must not exhaust the real one
  const takeKey = (): boolean => takeString() && takeChar(":");
  let wantsValue = true;
  for (;;) {
    if (wantsValue) {
      take(space);
      if (takeChar("[")) {
        if (!takeChar("]")) {
          closers.push("]");
          continue;
        }
      } else if (takeChar("{")) {
        if (!takeChar("}")) {
          closers.push("}");
          if (!takeKey()) return at;
          continue;
        }
      } else if (text[at] === '"' ? !takeString() : !take(literal) && !take(number)) return at;
      wantsValue = false;
    }
    const closer = closers.at(-1);
    if (closer === undefined) {
      take(space);
      return at === text.length ? -1 : at;
    }
    if (takeChar(",")) {
      if (closer === "}" && !takeKey()) return at;
      wantsValue = true;
    } else if (takeChar(closer)) closers.pop();
    else return at;
  }
}

/** @returns the column of an index, counted in characters from 1: both halves of a pair are one */
export function columnOf(text: string, index: number): number {
  let column = index + 1;
  for (let at = 1; at < index; at++) {
    const code = text.charCodeAt(at);
    if (code < 0xdc00 || code > 0xdfff) continue;
    const before = text.charCodeAt(at - 1);
    if (before >= 0xd800 && before <= 0xdbff) column--;
  }
  return column;
}
