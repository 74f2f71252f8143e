export type { AlignedPair, AlignOptions, ErrorCounts } from "./align.ts";
export { addCounts, align, countErrors, errorRate, splitWords } from "./align.ts";
export type { ErrorReport, ScoredUtterance } from "./score.ts";
export { formatAlignment, formatErrorLine, formatErrors, formatRecogs, formatSummary, pythonRepr } from "./score.ts";
export type { TrainBpeOptions } from "./sentencePiece.ts";
export { SentencePiece, trainBpe } from "./sentencePiece.ts";
