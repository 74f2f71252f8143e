export { addCounts, align, countErrors, errorRate, splitWords } from "./align.ts";
export type { AlignOptions, AlignedPair, ErrorCounts } from "./align.ts";
export { formatAlignment, formatErrorLine, formatErrors, formatRecogs, formatSummary, pythonRepr } from "./score.ts";
export type { ErrorReport, ScoredUtterance } from "./score.ts";
export { SentencePiece, trainBpe } from "./sentencePiece.ts";
export type { TrainBpeOptions } from "./sentencePiece.ts";
