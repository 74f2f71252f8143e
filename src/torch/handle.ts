/** What stands for native objects in JavaScript. A handle of 0 is one that was freed. */

/** A tensor as operators see it; `Tensor` is the class to use. */
export class TensorHandle {
  /** The addon's handle; 0 once freed. Not for use outside of src/torch. */
  handle: number;
  /** True when `keep()` took it out of its scopes. */
  kept = false;
  constructor(handle: number) {
    this.handle = handle;
  }
}

/** A generator as operators see it; `Generator` is the class to use. */
export class GeneratorHandle {
  /** The addon's handle; 0 once freed. Not for use outside of src/torch. */
  handle: number;
  constructor(handle: number) {
    this.handle = handle;
  }
}
