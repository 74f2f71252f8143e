/** What training minimises: transducer, CTC, CR-CTC and attention losses. */
export { type AsrLossOptions, type AsrLosses, asrLoss } from "./asrLoss.ts";
export { type LabelSmoothingOptions, labelSmoothingLoss } from "./attention.ts";
export { type CrCtcLossOptions, crCtcLoss } from "./crCtc.ts";
export { type CtcLossOptions, ctcLoss } from "./ctc.ts";
export { type LatticeOptions, type LatticeScores, type Reduction, type RnntType, transducerLattice } from "./lattice.ts";
export { type PruneRangeOptions, doRnntPruning, getRnntPruneRanges } from "./pruning.ts";
export { type PrunedLossOptions, type RnntLossOptions, prunedTransducerLoss, rnntLoss } from "./prunedTransducer.ts";
export { type SmoothedLoss, type SmoothedLossOptions, rnntLossSmoothed, transducerBoundary } from "./smoothedTransducer.ts";
