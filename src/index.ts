/** serac: speech recognition in TypeScript on libtorch. Layers have entries of their own: serac/data, serac/torch, serac/train, ... */
export { errorCodes, type ErrorCode } from "./util/errorCodes.ts";
export * from "./util/errors.ts";
