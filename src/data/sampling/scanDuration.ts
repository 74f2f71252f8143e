/** The duration of a line of JSON without parsing the line. */
const quote = 0x22;
const backslash = 0x5c;

/** @returns the place behind a string that begins behind `at`, or `end` where it does not end */
function afterString(bytes: Buffer, at: number, end: number): number {
  for (let i = at; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte === backslash) i++;
    else if (byte === quote) return i + 1;
  }
  return end;
}

const durationKey = Buffer.from("duration");

function isDuration(bytes: Buffer, at: number): boolean {
  for (let i = 0; i < durationKey.length; i++) if (bytes[at + i] !== durationKey[i]) return false;
  return true;
}

/**
 * The number under the first top key "duration" of a line, without parsing the line, which takes many times as long.
 * @returns NaN where that cannot be told so: the line must then be parsed
 */
export function scanDuration(bytes: Buffer, start = 0, end = bytes.length): number {
  if (bytes[start] !== 0x7b) return Number.NaN;
  let depth = 0;
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte === 0x7b || byte === 0x5b) depth++;
    else if (byte === 0x7d || byte === 0x5d) depth--;
    else if (byte === quote) {
      const behind = afterString(bytes, i + 1, end);
      const isKey = depth === 1 && behind - i === durationKey.length + 2 && isDuration(bytes, i + 1);
      i = behind - 1;
      if (!isKey) continue;
      let at = behind;
      while (bytes[at] === 0x20) at++;
      if (bytes[at] !== 0x3a) continue; // a value
      return plainNumber(bytes, at + 1, end);
    }
  }
  return Number.NaN;
}

/** A number of digits and at most one point; NaN for what is written in another way. */
function plainNumber(bytes: Buffer, from: number, end: number): number {
  let start = from;
  while (bytes[start] === 0x20) start++;
  let stop = start;
  while (stop < end && ((bytes[stop] as number) === 0x2e || ((bytes[stop] as number) >= 0x30 && (bytes[stop] as number) <= 0x39))) stop++;
  const text = bytes.toString("latin1", start, stop);
  while (bytes[stop] === 0x20) stop++;
  return (bytes[stop] === 0x2c || bytes[stop] === 0x7d) && /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
}
