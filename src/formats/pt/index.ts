/** Files of torch.save (.pt, .pth, .ckpt), read and written without torch and without running what is in them. */
export { elementBytes } from "./dtypes.ts";
export { looksLikePt, openPt, type PtFile, parsePt } from "./read.ts";
export { memoryTensor, PtTensor, rowMajorStrides } from "./tensor.ts";
export * from "./values.ts";
export { describe, leavesOf, type PtLeaf, printable, tensorLeaves } from "./walk.ts";
export { ptDict, serializePt, stateDict, writePt } from "./write.ts";
