/** Which dataset each utterance of a concatenation is drawn from. Source: NeMo, collections/common/data/dataset.py, ConcatDataset. */
import { NumpyRandom } from "../../util/numpyRandom.ts";
import type { NemoDatasetConfig } from "./nemoConfig.ts";

/** Probabilities of datasets by their lengths: proportional to (length / total)^(1 / temperature). */
export function temperatureProbabilities(lengths: readonly number[], temperature: number): number[] {
  const total = lengths.reduce((a, b) => a + b, 0);
  const powers = lengths.map((length) => (length / total) ** (1 / temperature));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/**
 * An endless series of places of datasets, as NeMo draws them with the same seed.
 * @param lengths utterances of each dataset
 */
export function* concatDraws(
  lengths: readonly number[],
  {
    concatSamplingTechnique,
    concatSamplingTemperature,
    concatSamplingProbabilities,
  }: Pick<NemoDatasetConfig, "concatSamplingTechnique" | "concatSamplingTemperature" | "concatSamplingProbabilities">,
  seed: number,
): Generator<number, never> {
  if (concatSamplingTechnique === "round-robin") for (let i = 0; ; i = (i + 1) % lengths.length) yield i;
  const given = concatSamplingProbabilities ?? lengths.map(() => 1); // all alike where none is given, as in NeMo
  const total = given.reduce((a, b) => a + b, 0);
  const p = concatSamplingTechnique === "temperature" ? temperatureProbabilities(lengths, concatSamplingTemperature) : given.map((x) => x / total);
  const generator = new NumpyRandom(seed % 2 ** 32);
  for (;;) yield generator.choice(p);
}
