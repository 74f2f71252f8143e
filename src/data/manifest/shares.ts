/** Utterances and seconds by name: of speakers, languages, rates. */
import { DistinctCounter } from "../../util/distinct.ts";
import { hashText } from "../../util/hash.ts";

/** Utterances and seconds of one speaker, language or sampling rate. */
export interface Share {
  utterances: number;
  seconds: number;
}

/** Names that are counted one by one; of further ones only the number is kept. */
export const maxNames = 100_000;

/** Sums by name, in bounded memory. */
export class Shares {
  readonly byName = new Map<string, Share>();
  private readonly others = new DistinctCounter();
  private lastName: string | undefined;
  private last: Share | undefined;

  add(name: string, seconds: number): void {
    const share = name === this.lastName ? this.last : this.byName.get(name);
    if (share !== undefined) {
      this.lastName = name;
      this.last = share;
      share.utterances++;
      share.seconds += seconds;
    } else if (this.byName.size < maxNames) this.byName.set(name, { utterances: 1, seconds });
    else {
      const { high, low } = hashText(name);
      this.others.add(high | 0, low | 0 || 1);
    }
  }

  get distinct(): number {
    return this.byName.size + this.others.count;
  }

  largest(count = Number.POSITIVE_INFINITY): Record<string, Share> {
    return Object.fromEntries([...this.byName].sort(([, a], [, b]) => b.seconds - a.seconds || b.utterances - a.utterances).slice(0, count));
  }
}
