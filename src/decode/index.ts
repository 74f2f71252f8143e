/** Searches, and recognising audio with a trained model. */
export {
  type GreedyResult,
  type SearchableTransducer,
  type TransducerSearchOptions,
  ctcGreedyDecode,
  ctcGreedySearch,
  greedySearch,
  secondsPerFrame,
  transducerGreedySearch,
} from "./greedy.ts";
export { type DecodingMethod, Recognizer, type TimedToken, type Transcript } from "./recognizer.ts";
