/** What training minimises: transducer, CTC, CR-CTC and attention losses. */
export { type AsrLosses, type AsrLossOptions, asrLoss } from "./asrLoss.ts";
export { type LabelSmoothingOptions, labelSmoothingLoss } from "./attention.ts";
export { type CrCtcLossOptions, crCtcLoss } from "./crCtc.ts";
export { type CtcLossOptions, ctcLoss } from "./ctc.ts";
export { type LatticeOptions, type LatticeScores, type Reduction, type RnntType, transducerLattice } from "./lattice.ts";
export { type PrunedLatticeOptions, type PrunedLossOptions, prunedLatticeLoss, prunedTransducerLoss, type RnntLossOptions, rnntLoss } from "./prunedTransducer.ts";
export { doRnntPruning, getRnntPruneRanges, type PruneRangeOptions, symbolsAtRanges } from "./pruning.ts";
export { rnntLossSmoothed, type SmoothedLoss, type SmoothedLossOptions, transducerBoundary } from "./smoothedTransducer.ts";
