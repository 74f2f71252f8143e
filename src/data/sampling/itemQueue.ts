/** Items of a bucket in flat memory: a queue from which any item can be taken. */

/** What a queue saves. */
export interface SavedQueue {
  refs: number[];
  durations: number[];
  carried: boolean;
}

/** Refs and durations of items, the first of them at `head`. */
export class ItemQueue {
  refs = new Float64Array(64);
  durations = new Float64Array(64);
  /** Items lie from `head` up to, but without, `end`. */
  head = 0;
  end = 0;
  /** The item at `head` comes first: it did not fit in the last batch. */
  carried = false;

  get size(): number {
    return this.end - this.head;
  }

  push(ref: number, duration: number): void {
    if (this.end === this.refs.length) this.makeRoom();
    this.refs[this.end] = ref;
    this.durations[this.end++] = duration;
  }

  private makeRoom(): void {
    const { head, end, size } = this;
    if (head * 2 >= end) {
      this.refs.copyWithin(0, head, end);
      this.durations.copyWithin(0, head, end);
    } else {
      const refs = new Float64Array(2 * end);
      const durations = new Float64Array(2 * end);
      refs.set(this.refs.subarray(head, end));
      durations.set(this.durations.subarray(head, end));
      this.refs = refs;
      this.durations = durations;
    }
    this.head = 0;
    this.end = size;
  }

  /** Makes an item the one that comes first. */
  carry(place: number): void {
    const { refs, durations, head } = this;
    const ref = refs[place] as number;
    const duration = durations[place] as number;
    refs[place] = refs[head] as number;
    durations[place] = durations[head] as number;
    refs[head] = ref;
    durations[head] = duration;
    this.carried = true;
  }

  /** Takes an item out; the last one takes its place. */
  takeAt(place: number): void {
    const { refs, durations } = this;
    const last = --this.end;
    refs[place] = refs[last] as number;
    durations[place] = durations[last] as number;
  }

  /** Takes the first items out. */
  takeFirst(count = 1): void {
    this.head += count;
  }

  /** Takes items out at ascending places; the others keep their order. */
  takeAll(places: ArrayLike<number>): void {
    const { refs, durations, end } = this;
    let to = places[0] as number;
    let next = 0;
    for (let from = to; from < end; from++) {
      if (from === places[next]) {
        next++;
        continue;
      }
      refs[to] = refs[from] as number;
      durations[to++] = durations[from] as number;
    }
    this.end = to;
  }

  /** @returns what makes the queue as it is now, when it is asked for */
  mark(): () => SavedQueue {
    const refs = this.refs.slice(this.head, this.end);
    const durations = this.durations.slice(this.head, this.end);
    const { carried } = this;
    return () => ({ refs: Array.from(refs), durations: Array.from(durations), carried });
  }

  /** A queue as it was saved. */
  static from({ refs, durations, carried }: SavedQueue): ItemQueue {
    const queue = new ItemQueue();
    refs.forEach((ref, i) => {
      queue.push(ref, durations[i] as number);
    });
    queue.carried = carried;
    return queue;
  }
}
