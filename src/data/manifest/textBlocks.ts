/**
 * Texts gathered in flat memory, to be looked at together as UTF-16 units: asking a string for its units one by one costs several times as much.
 */

/** Texts in a row. */
export interface TextBlock {
  /** UTF-16, one text after another. */
  units: Uint16Array<ArrayBuffer>;
  /** Where each text ends in `units`. */
  ends: Uint32Array<ArrayBuffer>;
  /** Of the audio of each text; 0 where they are not known. */
  seconds: Float64Array<ArrayBuffer>;
}

/** Makes blocks of texts that come one by one. */
export class TextBlocks {
  private readonly size: number;
  private texts: string[] = [];
  private seconds: number[] = [];
  private units = 0;

  /** @param size units of a block, or a text more */
  constructor(size: number) {
    this.size = size;
  }

  /** @returns a block when one is full */
  add(text: string, seconds: number): TextBlock | undefined {
    this.texts.push(text);
    this.seconds.push(seconds);
    this.units += text.length;
    return this.units >= this.size ? this.take() : undefined;
  }

  /** The texts that are not in a block yet. */
  take(): TextBlock {
    const { texts, seconds } = this;
    const units = new Uint16Array(this.units);
    // The order of bytes is that of every machine that Node and libtorch are built for.
    Buffer.from(units.buffer).write(texts.join(""), "utf16le");
    const ends = new Uint32Array(texts.length);
    let end = 0;
    for (let i = 0; i < texts.length; i++) ends[i] = end += (texts[i] as string).length;
    const block = { units, ends, seconds: Float64Array.from(seconds) };
    this.texts = [];
    this.seconds = [];
    this.units = 0;
    return block;
  }
}
