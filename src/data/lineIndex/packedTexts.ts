/** Many short texts in memory at about a tenth of their size, each found by its number. */
import { deflateRawSync, inflateRawSync } from "node:zlib";

/** Texts to a block: some hundred kilobytes, which unpack in less than a millisecond. */
const blockTexts = 64;

/** A list of texts without line feeds. */
export class PackedTexts {
  length = 0;
  private readonly blocks: Buffer[] = [];
  private pending: string[] = [];
  /** The block that was unpacked last, and its texts: neighbours are often asked for together. */
  private last: { block: number; texts: readonly string[] } | undefined;

  push(text: string): void {
    this.length++;
    this.pending.push(text);
    if (this.pending.length < blockTexts) return;
    this.blocks.push(Buffer.from(deflateRawSync(this.pending.join("\n"), { level: 1 }))); // a copy: zlib gives a part of a larger buffer
    this.pending = [];
  }

  at(index: number): string {
    const block = Math.floor(index / blockTexts);
    return this.block(block)[index % blockTexts] as string;
  }

  private block(block: number): readonly string[] {
    const packed = this.blocks[block];
    if (!packed) return this.pending;
    if (this.last?.block !== block) this.last = { block, texts: inflateRawSync(packed).toString("utf8").split("\n") };
    return this.last.texts;
  }

  /** All of it as bytes, and how to read them again. */
  save(): { bytes: Uint8Array; sizes: number[] } {
    const blocks = this.pending.length === 0 ? this.blocks : [...this.blocks, deflateRawSync(this.pending.join("\n"), { level: 1 })];
    return { bytes: Buffer.concat(blocks), sizes: blocks.map(({ length }) => length) };
  }

  /** What `save` gave. */
  static from({ bytes, sizes }: { bytes: Uint8Array; sizes: readonly number[] }, length: number): PackedTexts {
    const texts = new PackedTexts();
    texts.length = length;
    let at = 0;
    for (const size of sizes) {
      texts.blocks.push(Buffer.from(bytes.buffer, bytes.byteOffset + at, size));
      at += size;
    }
    return texts;
  }
}
