/**
 * Names of files that are not UTF-8, as JavaScript strings: each byte that does not fit stands as a lone surrogate U+DC80 to U+DCFF.
 * Source: Python's error handler "surrogateescape" (PEP 383), so that such names mean the same in both.
 */
import { isUtf8 } from "node:buffer";

const loneSurrogate = /\p{Surrogate}/u; // with the flag u a pair is one character
const escaped = /[\ud800-\udbff][\udc00-\udfff]|[\udc80-\udcff]/g;

/** True where the text stands for bytes that are not UTF-8. */
export function hasEscapedBytes(text: string): boolean {
  return loneSurrogate.test(text);
}

/** The text of bytes; those that are not UTF-8 become lone surrogates. */
export function decodeSurrogateEscape(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (isUtf8(buffer)) return buffer.toString("utf8");
  let text = "";
  for (let at = 0; at < buffer.length; ) {
    const lead = buffer[at] as number;
    const length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
    const part = buffer.subarray(at, at + length);
    if (length > 0 && part.length === length && isUtf8(part)) {
      text += part.toString("utf8");
      at += length;
    } else {
      text += String.fromCharCode(0xdc00 + lead);
      at++;
    }
  }
  return text;
}

/** The bytes of a text: lone surrogates U+DC80 to U+DCFF become the bytes they stand for, other lone ones U+FFFD. */
export function encodeSurrogateEscape(text: string): Buffer {
  if (!hasEscapedBytes(text)) return Buffer.from(text, "utf8");
  const parts: Buffer[] = [];
  let done = 0;
  for (const { 0: match, index } of text.matchAll(escaped)) {
    if (match.length === 2) continue; // a pair: an ordinary character
    parts.push(Buffer.from(text.slice(done, index), "utf8"), Buffer.from([match.charCodeAt(0) - 0xdc00]));
    done = index + 1;
  }
  return Buffer.concat([...parts, Buffer.from(text.slice(done), "utf8")]);
}

/** A path as the file system takes it: the text itself, or its bytes where it stands for some that are not UTF-8. */
export function toFsPath(path: string): string | Buffer {
  return hasEscapedBytes(path) ? encodeSurrogateEscape(path) : path;
}
