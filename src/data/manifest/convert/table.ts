/**
 * Tables with a head: CSV (RFC 4180) and TSV with the same quoting, as Python's csv module writes both.
 * Cells of texts are as they are; others are JSON where they are no plain word, so that numbers, lists and texts that look like them come back.
 */
import { readBytes } from "../../../formats/byteSource.ts";
import { dumpPython, type PyObject, type PyValue, parsePython } from "../../../formats/pythonJson.ts";
import { FormatError } from "../../../util/errors.ts";
import { ManifestWriter } from "../writer.ts";
import type { Losses, Utterance } from "./common.ts";

/** Columns whose cells are texts whatever they look like. */
const textColumns = new Set(["audio_filepath", "audio_filename", "audio_file", "text", "normalized_text", "pred_text", "lang", "source_lang", "target_lang", "answer", "question"]);

const parsed = (cell: string): PyValue | undefined => {
  try {
    return parsePython(cell);
  } catch {
    return undefined;
  }
};

/** True for a cell that would not come back as this text. */
function looksLikeJson(cell: string, column: string): boolean {
  if (textColumns.has(column) && !/^\s*["[{]/.test(cell)) return false;
  return parsed(cell) !== undefined;
}

function toCell(value: PyValue, column: string): string {
  if (typeof value === "string") return value === "" && !textColumns.has(column) ? '""' : looksLikeJson(value, column) ? JSON.stringify(value) : value;
  return dumpPython(value);
}

function fromCell(cell: string, column: string): PyValue {
  if (textColumns.has(column) && !/^\s*["[{]/.test(cell)) return cell;
  const value = parsed(cell);
  // 1e5 or 1.50 are spelled otherwise by Python: such cells are numbers all the same.
  return value === undefined ? cell : value;
}

const quote = (cell: string, delimiter: string): string =>
  cell.includes('"') || cell.includes("\n") || cell.includes("\r") || cell.includes(delimiter) ? `"${cell.replaceAll('"', '""')}"` : cell;

interface Row {
  cells: string[];
  /** Where it begins, counted from 1. */
  line: number;
}

/** Takes a table's text in pieces, gives its rows. */
class RowParser {
  private state: "start" | "plain" | "quoted" | "quote" = "start";
  private cells: string[] = [];
  private cell = "";
  private line = 1;
  private begin = 1;
  private previous = "";
  private readonly delimiter: string;

  constructor(delimiter: string) {
    this.delimiter = delimiter;
  }

  feed(text: string): Row[] {
    const rows: Row[] = [];
    for (const char of text) {
      if (this.cells.length === 0 && this.cell === "" && this.state === "start") this.begin = this.line;
      if (char === "\n") this.line++;
      if (this.state === "quoted") {
        if (char === '"') this.state = "quote";
        else this.cell += char;
      } else if (char === '"' && (this.state === "quote" || this.state === "start")) {
        if (this.state === "quote") this.cell += '"';
        this.state = "quoted";
      } else if (char === this.delimiter) this.endCell();
      else if (char === "\n" || char === "\r") {
        if (char === "\r" || this.previous !== "\r") this.endRow(rows);
      } else {
        this.cell += char;
        this.state = "plain";
      }
      this.previous = char;
    }
    return rows;
  }

  private endCell(): void {
    this.cells.push(this.cell);
    this.cell = "";
    this.state = "start";
  }

  private endRow(rows: Row[]): void {
    this.endCell();
    if (this.cells.length > 1 || this.cells[0] !== "") rows.push({ cells: this.cells, line: this.begin });
    this.cells = [];
  }

  /** @returns the last row, where it had no line feed. @throws FormatError for a quoted cell that is not closed */
  end(path: string): Row[] {
    if (this.state === "quoted") throw new FormatError("JSONL_BAD_LINE", { at: `${path}:${this.begin}`, message: "a quoted cell is not closed" });
    const rows: Row[] = [];
    if (this.cell !== "" || this.cells.length > 0 || this.state === "quote") this.endRow(rows);
    return rows;
  }
}

/** The rows of a table with quoted cells. */
async function* readRows(path: string, delimiter: string): AsyncGenerator<Row> {
  const parser = new RowParser(delimiter);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  try {
    for await (const chunk of readBytes(path)) yield* parser.feed(decoder.decode(chunk, { stream: true }));
    yield* parser.feed(decoder.decode());
  } catch (error) {
    if (error instanceof TypeError)
      throw new FormatError("JSONL_BAD_LINE", { at: path, message: "not UTF-8", fix: "convert the file, for example: iconv -f LATIN1 -t UTF-8", cause: error });
    throw error;
  }
  yield* parser.end(path);
}

/** The utterances of a table. Empty cells are left out, but for an empty text. @throws FormatError JSONL_BAD_LINE for rows of another length than the head */
export async function* readTable(path: string, delimiter: string): AsyncGenerator<Utterance> {
  let head: string[] | undefined;
  for await (const { cells, line } of readRows(path, delimiter)) {
    const at = `${path}:${line}`;
    if (head === undefined) {
      head = cells.map((cell) => cell.trim());
      const columns = head;
      const twice = columns.find((name, i) => columns.indexOf(name) !== i);
      if (twice !== undefined) throw new FormatError("JSONL_BAD_LINE", { at, message: `the head has "${twice}" twice` });
      continue;
    }
    if (cells.length !== head.length) throw new FormatError("JSONL_BAD_LINE", { at, message: `${cells.length} cells, the head has ${head.length}` });
    const object: PyObject = new Map();
    head.forEach((column, i) => {
      const cell = cells[i] as string;
      if (cell === "" && column !== "text") return;
      object.set(column, fromCell(cell, column));
    });
    yield { object, at, base: path === "-" ? undefined : path };
  }
}

/** Writes a table. @param columns every key of the utterances, in order */
export async function writeTable(path: string, delimiter: string, columns: readonly string[], utterances: AsyncIterable<Utterance>, losses: Losses): Promise<number> {
  const writer = new ManifestWriter(path);
  try {
    await writer.writeText(columns.map((column) => quote(column, delimiter)).join(delimiter));
    let count = 0;
    for await (const { object, at } of utterances) {
      if (columns.includes("text") && !object.has("text")) losses.add("the difference between no text and an empty one", at);
      for (const [key, value] of object)
        if (textColumns.has(key) && typeof value !== "string" && !(value instanceof Map) && !Array.isArray(value))
          losses.add(`that "${key}" is a number, or true, false or null`, at);
      for (const [key, value] of object) if (value === "" && textColumns.has(key) && key !== "text") losses.add(`the difference between no "${key}" and an empty one`, at);
      const full = writer.writeText(
        columns
          .map((column) => {
            const value = object.get(column);
            return value === undefined ? "" : quote(toCell(value, column), delimiter);
          })
          .join(delimiter),
      );
      if (full) await full;
      count++;
    }
    await writer.close();
    return count;
  } catch (error) {
    writer.abandon();
    throw error;
  }
}
