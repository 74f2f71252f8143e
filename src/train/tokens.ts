/** A tokenizer that remembers the ids of texts that came before: every epoch has the same ones. */
import { createHash } from "node:crypto";
import { SentencePiece } from "../text/index.ts";

export class Tokens {
  readonly model: SentencePiece;
  readonly bytes: Uint8Array;
  /** Names it in indices of manifests. */
  readonly key: string;
  private readonly known = new Map<string, number[]>();

  /** @param path names it in errors */
  constructor(bytes: Uint8Array, path: string) {
    this.bytes = bytes;
    this.key = `bpe-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}`;
    this.model = SentencePiece.fromBytes(bytes, path);
  }

  /** @returns the ids of a text; the caller must not change them */
  of(text: string): number[] {
    let ids = this.known.get(text);
    if (!ids) {
      ids = Array.from(this.model.encode(text));
      this.known.set(text, ids);
    }
    return ids;
  }
}
