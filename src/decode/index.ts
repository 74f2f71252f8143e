/** Searches, and recognising audio with a trained model. */
export {
  ctcGreedyDecode,
  ctcGreedySearch,
  type GreedyResult,
  greedySearch,
  type SearchableTransducer,
  type SearchProgress,
  secondsPerFrame,
  type TransducerSearchOptions,
  transducerGreedySearch,
} from "./greedy.ts";
export { RecognitionStream } from "./recognitionStream.ts";
export { type DecodingMethod, Recognizer, type RecognizerOptions, type TimedToken, type Transcript } from "./recognizer.ts";
export { StreamingRecognizer, type StreamingRecognizerOptions } from "./streamingRecognizer.ts";
