/** Work ahead of who needs it, in order, at most so many items. */

/**
 * Maps items by an async function, up to `depth` of them ahead of the consumer; results come in the order of the items.
 * An error is thrown where its item would have come; leaving the loop early stops starting new work and waits for none.
 */
export async function* prefetch<T, R>(items: Iterable<T>, depth: number, work: (item: T) => Promise<R>): AsyncGenerator<R> {
  const iterator = items[Symbol.iterator]();
  const running: Promise<R>[] = [];
  const start = (): void => {
    const next = iterator.next();
    if (next.done) return;
    const promise = work(next.value);
    promise.catch(() => {}); // reported when its turn comes
    running.push(promise);
  };
  for (let i = 0; i < depth; i++) start();
  while (running.length > 0) {
    const result = await (running.shift() as Promise<R>);
    start();
    yield result;
  }
}
