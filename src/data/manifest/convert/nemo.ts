/** NeMo manifests, and files of one JSON value, as utterances. */
import { readBytes } from "../../../formats/byteSource.ts";
import { JsonSyntaxError, type PyObject, parsePython } from "../../../formats/pythonJson.ts";
import { FormatError } from "../../../util/errors.ts";
import { isSkipped } from "../entry.ts";
import { type ReadLinesOptions, readManifestLines } from "../lines.ts";
import type { Losses, Utterance } from "./common.ts";

/** The lines of a manifest; those with `_skipme` are left out. */
export async function* readNemo(path: string, losses: Losses, options: ReadLinesOptions = {}): AsyncGenerator<Utterance> {
  for await (const line of readManifestLines([path], options)) {
    const at = `${line.path}:${line.line}`;
    if (isSkipped(line.value)) losses.drop("lines with _skipme", at);
    else yield { object: parsePython(line.text) as PyObject, at, base: path === "-" ? undefined : path };
  }
}

/** The objects of a file that is one JSON array of them, or one object. @throws FormatError JSONL_BAD_LINE at file:line:column */
export async function* readJson(path: string, losses: Losses): AsyncGenerator<Utterance> {
  const parts: Buffer[] = [];
  for await (const chunk of readBytes(path)) parts.push(chunk);
  const text = Buffer.concat(parts)
    .toString("utf8")
    .replace(/^\ufeff/, "");
  let value: ReturnType<typeof parsePython>;
  try {
    value = parsePython(text);
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    const before = text.slice(0, cause.index).split("\n");
    const column = [...(before.at(-1) as string)].length + 1;
    throw new FormatError("JSONL_BAD_LINE", {
      at: `${path}:${before.length}:${column}`,
      message: cause.message,
      fix: "a file of an object on each line is the format nemo",
      cause,
    });
  }
  for (const [i, item] of (Array.isArray(value) ? value : [value]).entries()) {
    const at = `${path}:[${i}]`;
    if (item instanceof Map) yield { object: item, at, base: path === "-" ? undefined : path };
    else losses.drop("values that are no object", at);
  }
}
