/** Searches, and recognising audio with a trained model. */
export {
  ctcGreedyDecode,
  ctcGreedySearch,
  type GreedyResult,
  greedySearch,
  type SearchableTransducer,
  secondsPerFrame,
  type TransducerSearchOptions,
  transducerGreedySearch,
} from "./greedy.ts";
export { type DecodingMethod, Recognizer, type RecognizerOptions, type TimedToken, type Transcript } from "./recognizer.ts";
