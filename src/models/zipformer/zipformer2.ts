import { drawUtterances, expectShape, type Init, Module, ModuleList, paddingMask, type Schedule, ScheduledFloat } from "../../nn/index.ts";
import { cat, fromTypedArray, noGrad, scope, type Tensor, zeros } from "../../torch/index.ts";
import { ConfigError, ShapeError } from "../../util/errors.ts";
import { DownsampledEncoderStack, EncoderStack } from "./encoderStack.ts";
import { attentionMask, type Chunks, chunkMask, noChunks, streamingMask, stride } from "./masks.ts";
import { Downsample } from "./resample.ts";

/** A value of each stack, or one for all. */
export type PerStack = number | readonly number[];

/** The shape of the encoder; names and defaults are those of icefall's flags. Lists have one entry a stack. */
export interface ZipformerOptions {
  numEncoderLayers?: readonly number[];
  downsamplingFactor?: readonly number[];
  feedforwardDim?: PerStack;
  numHeads?: PerStack;
  encoderDim?: PerStack;
  queryHeadDim?: PerStack;
  valueHeadDim?: PerStack;
  posHeadDim?: PerStack;
  posDim?: number;
  encoderUnmaskedDim?: PerStack;
  cnnModuleKernel?: PerStack;
  /** For streaming: convolutions that do not look ahead of their chunk, and chunk-wise attention. */
  causal?: boolean;
  /** Chunk sizes in frames at 50 Hz, one of which a training batch draws; -1 for the whole utterance. */
  chunkSize?: readonly number[];
  /** Frames of left context at 50 Hz, one of which a training batch draws; -1 for all. */
  leftContextFrames?: readonly number[];
  dropout?: Schedule;
  /** Batches over which the skipping of layers fades out, stack by stack. */
  warmupBatches?: number;
}

/** A choice of chunks for one forward pass, in frames at 50 Hz. */
export interface ChunkChoice {
  chunkSize: number;
  leftContextFrames: number;
}

interface StackShape {
  factor: number;
  channels: number;
  unmasked: number;
  kernelSize: number;
}

const featureMaskRate = 0.125;

/** Numbers per stack. @throws ConfigError when a list has another length */
function perStack(name: string, value: PerStack, stacks: number): readonly number[] {
  if (typeof value === "number") return new Array<number>(stacks).fill(value);
  if (value.length === 1) return new Array<number>(stacks).fill(value[0] as number);
  if (value.length !== stacks)
    throw new ConfigError("CONFIG_BAD_VALUE", { at: name, message: `${value.length} values for ${stacks} stacks`, fix: "give one value, or as many as downsamplingFactor has" });
  return value;
}

/**
 * The Zipformer: stacks of layers at several frame rates, each with its own width.
 * Source: Zipformer (arXiv 2310.11230); icefall zipformer/zipformer.py (Zipformer2).
 */
export class Zipformer2 extends Module {
  /** Channels of the output: the widest stack's. */
  readonly outChannels: number;
  readonly inChannels: number;
  readonly causal: boolean;
  /** Chunks to use outside of training; undefined takes the largest of the options. */
  chunks: ChunkChoice | undefined;
  featureMaskRate = featureMaskRate;
  private readonly stacks: readonly StackShape[];
  private readonly encoders: ModuleList<EncoderStack | DownsampledEncoderStack>;
  private readonly downsampleOutput: Downsample;
  private readonly chunkSize: readonly number[];
  private readonly leftContextFrames: readonly number[];

  constructor({
    numEncoderLayers = [2, 2, 3, 4, 3, 2],
    downsamplingFactor = [1, 2, 4, 8, 4, 2],
    feedforwardDim = [512, 768, 1024, 1536, 1024, 768],
    numHeads = [4, 4, 4, 8, 4, 4],
    encoderDim = [192, 256, 384, 512, 384, 256],
    queryHeadDim = 32,
    valueHeadDim = 12,
    posHeadDim = 4,
    posDim = 48,
    encoderUnmaskedDim = [192, 192, 256, 256, 256, 192],
    cnnModuleKernel = [31, 31, 15, 15, 15, 31],
    causal = false,
    chunkSize = [16, 32, 64, -1],
    leftContextFrames = [64, 128, 256, -1],
    dropout = new ScheduledFloat([
      [0, 0.3],
      [20000, 0.1],
    ]), // prettier-ignore
    warmupBatches = 4000,
    generator,
  }: ZipformerOptions & Init) {
    super();
    const count = downsamplingFactor.length;
    const at = (name: string, value: PerStack): readonly number[] => perStack(name, value, count);
    const layers = at("numEncoderLayers", numEncoderLayers);
    const channels = at("encoderDim", encoderDim);
    const unmasked = at("encoderUnmaskedDim", encoderUnmaskedDim);
    const heads = at("numHeads", numHeads);
    const kernels = at("cnnModuleKernel", cnnModuleKernel);
    const feedforward = at("feedforwardDim", feedforwardDim);
    const query = at("queryHeadDim", queryHeadDim);
    const value = at("valueHeadDim", valueHeadDim);
    const pos = at("posHeadDim", posHeadDim);
    this.stacks = downsamplingFactor.map((factor, i) => ({
      factor,
      channels: channels[i] as number,
      unmasked: unmasked[i] as number,
      kernelSize: kernels[i] as number,
    }));
    this.stacks.forEach(checkStack);
    this.causal = causal;
    this.chunkSize = chunkSize;
    this.leftContextFrames = leftContextFrames;
    this.inChannels = channels[0] as number;
    this.outChannels = Math.max(...channels);
    if (causal) this.checkChunks();
    this.encoders = this.child(
      "encoders",
      new ModuleList(
        this.stacks.map(({ factor, channels, kernelSize }, i) => {
          const encoder = new EncoderStack({
            channels,
            heads: heads[i] as number,
            kernelSize,
            feedforwardDim: feedforward[i] as number,
            queryHeadDim: query[i] as number,
            valueHeadDim: value[i] as number,
            posHeadDim: pos[i] as number,
            posDim,
            causal,
            dropout,
            generator,
            bypassSkipRates: skipRates({ stack: i, stacks: count, layers: layers[i] as number, factor, warmupBatches }),
          });
          return factor === 1 ? encoder : new DownsampledEncoderStack({ factor, channels, generator, encoder });
        }),
      ),
    );
    this.downsampleOutput = this.child("downsample_output", new Downsample({ factor: 2, generator }));
  }

  /**
   * @param x (T, N, C0), at 50 Hz, time first
   * @param lengths frames of each utterance
   * @param chunks for this pass; else as drawn, or as set
   * @returns x (ceil(T / 2), N, C), at 25 Hz, and the lengths that remain
   */
  forward(x: Tensor, lengths: readonly number[], chunks?: ChunkChoice): { x: Tensor; lengths: number[] } {
    expectShape("Zipformer2", x, ["T", "N", this.inChannels]);
    const [frames, batch] = x.shape as [number, number];
    if (lengths.length !== batch) throw new ShapeError("SHAPE_MISMATCH", { at: "Zipformer2", message: `got ${lengths.length} lengths for a batch of ${batch}` });
    const y = scope(() => {
      const { device } = x;
      const chosen = this.chooseChunks(chunks);
      const [chunk, padding, featureMasks] = noGrad(() => [chunkMask(frames, chosen, device), paddingMask(lengths, frames, device), this.featureMasks(batch, x)] as const);
      const outputs: Tensor[] = [];
      let src = x;
      for (const [i, encoder] of this.encoders.items.entries()) {
        const { factor, channels } = this.stacks[i] as StackShape;
        const ownPadding = stride(padding, factor, [1]);
        src = encoder.forward(convertChannels(src, channels), {
          chunkSize: chosen.size < 0 ? -1 : chosen.size / factor,
          padding: ownPadding,
          attentionMask: attentionMask(stride(chunk, factor, [0, 1]), ownPadding),
          featureMask: featureMasks[i] ?? null,
        });
        outputs.push(src);
      }
      return this.downsampleOutput.forward(fullWidth(outputs, this.stacks));
    });
    return { x: y, lengths: lengths.map((length) => Math.floor((length + 1) / 2)) };
  }

  /** Shapes of the states that `streamingForward` carries from chunk to chunk: six of every layer. */
  streamingStateShapes(batch: number, leftContextFrames: number): number[][] {
    return this.encoders.items.flatMap((encoder, i) => encoder.streamingStateShapes(batch, leftContextFrames / (this.stacks[i] as StackShape).factor));
  }

  /**
   * One chunk of every stream. Only of a causal encoder, in evaluation.
   * @param x (T, N, C0), a whole chunk at 50 Hz
   * @param states of `streamingStateShapes`
   * @param processed (N) frames of every stream that came before
   * @returns x (T / 2, N, C), at 25 Hz, and the states after the chunk
   */
  streamingForward(x: Tensor, states: readonly Tensor[], { processed, leftContextFrames }: { processed: Tensor; leftContextFrames: number }): { x: Tensor; states: Tensor[] } {
    return scope(() => {
      const mask = streamingMask(processed, leftContextFrames, x.size(0));
      const outputs: Tensor[] = [];
      const after: Tensor[] = [];
      let src = x;
      for (const [i, encoder] of this.encoders.items.entries()) {
        const { factor, channels } = this.stacks[i] as StackShape;
        const count = encoder.streamingStateShapes(1, 1).length;
        const own = states.slice(after.length, after.length + count);
        const done = encoder.streamingForward(convertChannels(src, channels), own, stride(mask, factor, [1]) as Tensor);
        src = done.x;
        outputs.push(src);
        after.push(...done.states);
      }
      return { x: this.downsampleOutput.forward(fullWidth(outputs, this.stacks)), states: after };
    });
  }

  /** @throws ConfigError for an encoder that cannot stream in such chunks */
  checkStreaming({ chunkSize, leftContextFrames }: ChunkChoice): void {
    const bad = (at: string, message: string, fix: string): never => {
      throw new ConfigError("CONFIG_BAD_VALUE", { at, message, fix });
    };
    if (!this.causal) bad("causal", "the model looks ahead of its chunks and cannot stream", "train it with causal, or recognise whole recordings");
    if (!Number.isInteger(chunkSize) || chunkSize < 2 || chunkSize % 2 !== 0) bad("chunkSize", `${chunkSize} is not an even number of frames`, "give one of the sizes of training");
    if (!Number.isInteger(leftContextFrames) || leftContextFrames < chunkSize || leftContextFrames % chunkSize !== 0)
      bad("leftContextFrames", `${leftContextFrames} is not a multiple of the chunk size ${chunkSize}, in which training counts the left context`, "give such a multiple");
    this.checkChunk({ size: chunkSize, left: leftContextFrames / chunkSize });
  }

  private chooseChunks(given: ChunkChoice | undefined): Chunks {
    if (!this.causal) return noChunks;
    const fixed = given ?? (this.training ? undefined : (this.chunks ?? { chunkSize: largest(this.chunkSize), leftContextFrames: largest(this.leftContextFrames) }));
    const size = fixed ? fixed.chunkSize : this.random.choice(this.chunkSize);
    if (size < 0) return noChunks;
    const leftFrames = fixed ? fixed.leftContextFrames : this.random.choice(this.leftContextFrames);
    const chunks = { size, left: leftFrames < 0 ? -1 : Math.max(1, Math.floor(leftFrames / size)) };
    this.checkChunk(chunks);
    return chunks;
  }

  /** Per stack (1, N, C) of 0 and 1, or null: some utterances lose the upper channels of every stack. Only while training. */
  private featureMasks(batch: number, like: Tensor): (Tensor | null)[] {
    if (!this.training) return [];
    const first = drawUtterances(this.random, batch, this.featureMaskRate);
    const second = drawUtterances(this.random, batch, this.featureMaskRate);
    if (!first && !second) return [];
    return this.stacks.map(({ channels, unmasked }) => {
      if (unmasked >= channels) return null;
      const middle = unmasked + Math.floor((channels - unmasked) / 2);
      const mask = new Float32Array(batch * channels).fill(1);
      for (let n = 0; n < batch; n++) {
        const low = first?.[n] ?? 1;
        const row = mask.subarray(n * channels, (n + 1) * channels);
        row.fill(low, unmasked, middle);
        row.fill(low * (second?.[n] ?? 1), middle);
      }
      return fromTypedArray(mask, [1, batch, channels]).to({ dtype: like.dtype, device: like.device });
    });
  }

  private checkChunks(): void {
    for (const size of this.chunkSize)
      for (const leftFrames of this.leftContextFrames) if (size >= 0) this.checkChunk({ size, left: leftFrames < 0 ? -1 : Math.max(1, Math.floor(leftFrames / size)) });
  }

  private checkChunk({ size, left }: Chunks): void {
    for (const { factor, kernelSize } of this.stacks) {
      if (size === 0 || size % factor !== 0)
        throw new ConfigError("CONFIG_BAD_VALUE", {
          at: "chunkSize",
          message: `${size} frames are not a multiple of the downsampling factor ${factor}`,
          fix: "give multiples of the largest factor, or -1",
        });
      const needed = Math.floor(kernelSize / 2) * factor;
      if (left >= 0 && size * left < needed)
        throw new ConfigError("CONFIG_BAD_VALUE", {
          at: "leftContextFrames",
          message: `${size * left} frames are fewer than the ${needed} that the convolution of a stack looks back`,
          fix: "give more left context",
        });
    }
  }
}

function checkStack({ factor, channels, unmasked, kernelSize }: StackShape): void {
  const bad = (at: string, message: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { at, message });
  };
  if (kernelSize % 2 === 0) bad("cnnModuleKernel", `a kernel of ${kernelSize} frames has no middle; it must be odd`);
  if (unmasked > channels) bad("encoderUnmaskedDim", `${unmasked} is more than the stack's ${channels} channels`);
  if (!Number.isInteger(factor) || factor < 1) bad("downsamplingFactor", `${factor} is not a positive integer`);
}

const largest = (values: readonly number[]): number => (values.some((value) => value < 0) ? -1 : Math.max(...values));

/** Rates at which the layers of a stack are skipped: the warm-up goes from stack to stack, and within one from layer to layer. */
function skipRates({ stack, stacks, layers, factor, warmupBatches }: { stack: number; stacks: number; layers: number; factor: number; warmupBatches: number }): ScheduledFloat[] {
  const begin = (warmupBatches * (stack + 1)) / (stacks + 1);
  const window = warmupBatches / (stacks + 1);
  return Array.from({ length: layers }, (_, i) => {
    const from = begin + (window * i) / layers;
    return new ScheduledFloat([
      [from, 0.5],
      [from + window / layers, 0.035 * Math.sqrt(factor)],
    ]); // prettier-ignore
  });
}

/** The first `channels` channels; zeros are appended where there are fewer. */
function convertChannels(x: Tensor, channels: number): Tensor {
  const own = x.size(-1);
  if (channels === own) return x;
  if (channels < own) return x.slice(-1, 0, channels).contiguous();
  return cat([x, zeros([...x.shape.slice(0, -1), channels - own], { dtype: x.dtype, device: x.device })], -1);
}

/** Every channel from the last stack that has it: (T, N, widest). */
function fullWidth(outputs: readonly Tensor[], stacks: readonly StackShape[]): Tensor {
  const pieces = [outputs.at(-1) as Tensor];
  let width = (stacks.at(-1) as StackShape).channels;
  for (let i = outputs.length - 2; i >= 0; i--) {
    const { channels } = stacks[i] as StackShape;
    if (channels <= width) continue;
    pieces.push((outputs[i] as Tensor).slice(-1, width, channels));
    width = channels;
  }
  return pieces.length === 1 ? (pieces[0] as Tensor) : cat(pieces, -1);
}
