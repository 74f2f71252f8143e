/** A source that plays each of its cuts at a speed drawn for every epoch. */
import { ConfigError } from "../../util/errors.ts";
import { mix } from "../../util/hash.ts";
import { perturbCutSpeed } from "../loading/played.ts";
import type { EpochOptions, ItemBlock, ItemSource, ItemStream, Json, StreamPosition } from "../sampling/index.ts";
import type { SourceCut } from "./cut.ts";
import { numSamples, perturbedSamples } from "./times.ts";

/** How speeds are drawn. */
export interface DrawnSpeedOptions {
  /** Each is as likely as the others; 1 keeps the speed. */
  factors: readonly number[];
  seed: number;
  /** Hz at which samples are counted: the loader's. */
  sampleRate: number;
}

/**
 * A source whose durations are already those at the speeds drawn, so that batches stay within their limits. The speed of an utterance follows from seed, epoch and
 * its number; where a source has no end, from its place, because it comes by again.
 */
export class DrawnSpeedSource implements ItemSource<SourceCut> {
  readonly source: ItemSource<SourceCut>;
  private readonly factors: readonly number[];
  private readonly seed: number;
  private readonly sampleRate: number;

  /** @throws ConfigError CONFIG_BAD_VALUE */
  constructor(source: ItemSource<SourceCut>, { factors, seed, sampleRate }: DrawnSpeedOptions) {
    if (factors.length === 0 || !factors.every((factor) => factor > 0.01 && factor < 100))
      throw new ConfigError("CONFIG_BAD_VALUE", { at: "speeds", message: `the factors are ${factors.join(", ")}, expected one or more within 0.01 to 100` });
    this.source = source;
    this.factors = factors;
    this.seed = seed;
    this.sampleRate = sampleRate;
  }

  get name(): string {
    return this.source.name;
  }

  get length(): number | undefined {
    return this.source.length;
  }

  get divisible(): boolean {
    return this.source.divisible;
  }

  fingerprint(): string {
    return `speeds ${this.factors.join(" ")} ${this.seed} of ${this.source.fingerprint()}`;
  }

  async open(options: EpochOptions, position?: StreamPosition): Promise<ItemStream> {
    const saved = position?.state as SpeedState | undefined;
    const inner = position && { state: (saved as SpeedState).source, held: this.inner(position.held) };
    return new DrawnSpeedStream(await this.source.open(options, inner), {
      factors: this.factors,
      sampleRate: this.sampleRate,
      key: mix(this.seed ^ mix(options.epoch + 1)),
      byPlace: this.length === Number.POSITIVE_INFINITY,
      place: saved?.place ?? 0,
    });
  }

  /** Numbers of items carry their speed: the inner number times the count of speeds, plus the speed's place. */
  private inner(refs: ArrayLike<number>): number[] {
    return Array.from(refs, (ref) => Math.floor(ref / this.factors.length));
  }

  async load(refs: ArrayLike<number>): Promise<SourceCut[]> {
    const cuts = await this.source.load(this.inner(refs));
    return cuts.map((cut, i) => perturbCutSpeed(cut, this.factors[(refs[i] as number) % this.factors.length] as number, this.sampleRate));
  }

  release(refs: ArrayLike<number>): void {
    this.source.release(this.inner(refs));
  }

  where(ref: number): string {
    return this.source.where(Math.floor(ref / this.factors.length));
  }
}

interface SpeedState {
  source: Json;
  /** Items read. */
  place: number;
}

class DrawnSpeedStream implements ItemStream {
  private readonly stream: ItemStream;
  private readonly factors: readonly number[];
  private readonly sampleRate: number;
  private readonly key: number;
  private readonly byPlace: boolean;
  private place: number;

  constructor(stream: ItemStream, { factors, sampleRate, key, byPlace, place }: Omit<DrawnSpeedOptions, "seed"> & { key: number; byPlace: boolean; place: number }) {
    this.stream = stream;
    this.factors = factors;
    this.sampleRate = sampleRate;
    this.key = key;
    this.byPlace = byPlace;
    this.place = place;
  }

  read(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined> {
    const next = this.stream.read(most);
    return next instanceof Promise ? next.then((block) => this.perturbed(block)) : this.perturbed(next);
  }

  private perturbed(block: ItemBlock | undefined): ItemBlock | undefined {
    if (!block) return undefined;
    const { factors, sampleRate } = this;
    const refs = new Float64Array(block.count);
    const durations = new Float64Array(block.count);
    for (let i = 0; i < block.count; i++) {
      const ref = block.refs[i] as number;
      const item = this.byPlace ? this.place++ : ref;
      const drawn = mix(this.key ^ mix(item % 2 ** 32) ^ Math.floor(item / 2 ** 32)) % factors.length;
      refs[i] = ref * factors.length + drawn;
      const factor = factors[drawn] as number;
      const duration = block.durations[i] as number;
      durations[i] = factor === 1 ? duration : perturbedSamples(numSamples(duration, sampleRate), factor) / sampleRate;
    }
    return { count: block.count, refs, durations, tokens: block.tokens };
  }

  state(): Json {
    return { source: this.stream.state(), place: this.place };
  }

  close(): Promise<void> | void {
    return this.stream.close();
  }
}
