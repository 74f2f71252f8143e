/** The garbage collector on demand, for tests of finalizers. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

/** Collects until `done` holds; finalizers run in turns of the event loop. Gives up after a hundred turns. */
export async function collectUntil(done: () => boolean): Promise<boolean> {
  for (let i = 0; i < 100 && !done(); i++) {
    gc();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return done();
}
