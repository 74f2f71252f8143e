/**
 * The registry of error codes: one paragraph each, printed in docs/errors.md.
 * Grouped by the layer that throws them; keep each group sorted.
 */
export const errorCodes = {
  // util
  CONFIG_BAD_VALUE: "An option has a value outside of what it accepts. The message names the option, the value and what is accepted.",
  CONFIG_UNKNOWN_OPTION: "An option is not known to the command. The message names the nearest known one where there is one.",

  // formats

  // torch
  NATIVE_MISSING: "A native addon has not been built, or a library it needs is not installed. `npm run setup` in a checkout, or `serac doctor`, says which.",
  TENSOR_FREED: "A tensor was used after it was freed: its scope ended, or `dispose()` was called. Return it from the scope, or `keep()` it.",
  TORCH_BAD_ARGUMENT: "An operator got an argument of the wrong type, or one is missing. The message names the operator, the argument and the type its schema asks for.",
  TORCH_FAILED: "libtorch raised an error inside an operator. The message names the operator and the shapes it got, followed by libtorch's own words.",
  TORCH_UNKNOWN_OPERATOR: "The loaded libtorch has no operator of this name and overload.",

  // audio

  // text

  // data

  // nn, models, losses, optim
  SHAPE_MISMATCH: "A tensor has another shape than the operation needs. The message gives both.",

  // train, decode
} as const satisfies Record<string, string>;

/** A stable identifier of a kind of error. */
export type ErrorCode = keyof typeof errorCodes;
