/** Where a text stops being JSON. Node's own messages do not always say. */

const space = /[ \t\n\r]*/y;
const literal = /true|false|null/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them inside strings
const stringStart = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/y;

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
    if (!take(stringStart)) return false;
    if (text[at] !== '"') return false;
    at++;
    return true;
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
