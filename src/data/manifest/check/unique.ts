/** Finds utterances that are there twice and files that would meet in a tar, by 8-byte hashes: what they are is not kept. */
import { HashTable, hashText, NumberList } from "../../../util/hash.ts";
import { flattenPath } from "../../tarred/convert/names.ts";
import type { CheckedLine } from "./line.ts";

/** Manifest and line in one number: lines have 40 bits. */
const lineBits = 2 ** 40;

export class Uniqueness {
  private readonly utterances = new HashTable();
  /** By the utterance's number: its first line. */
  private readonly firstLines = new NumberList();
  private readonly files = new HashTable();
  private readonly names = new HashTable();
  private readonly manifests: readonly string[];

  constructor(manifests: readonly string[]) {
    this.manifests = manifests;
  }

  /** The name that the file gets in a tar. */
  checkName(line: CheckedLine, audio: string): void {
    const { high, low } = hashText(audio);
    const known = this.files.size;
    if (this.files.add(high, low) < known) return; // the same file again
    const { base, extension } = flattenPath(audio);
    if (/-sub\d+$/.test(base)) line.found("subSuffix", audio);
    else if (audio.includes("-sub")) line.found("subInPath", audio);
    const name = hashText(base + extension);
    const names = this.names.size;
    if (this.names.add(name.high, name.low) < names) line.found("duplicateMember", `${audio} becomes ${base}${extension}, as an earlier file does`);
  }

  /** The same audio, offset and duration again. */
  checkUtterance(line: CheckedLine, audio: string): void {
    const { value, line: place } = line;
    const { high, low } = hashText(`${audio}\n${String(value["offset"] ?? 0)}\n${String(value["duration"])}`);
    const known = this.utterances.size;
    const number = this.utterances.add(high, low);
    if (number === known) {
      this.firstLines.push(Math.max(0, this.manifests.indexOf(place.path)) * lineBits + place.line);
      return;
    }
    const first = this.firstLines.get(number);
    line.lost("duplicateUtterance", `the same as ${this.manifests[Math.floor(first / lineBits)] ?? place.path}:${first % lineBits}`);
  }
}
