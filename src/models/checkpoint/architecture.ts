/** The shape of a model, read from the names and shapes of its parameters. */
import { CheckpointError, ConfigError, messageOf } from "../../util/errors.ts";
import { flagOf, parseOptions, showValue } from "../../util/options.ts";
import { type ModelOptions, modelOptions } from "../options.ts";

/** Shapes of parameters by icefall's names, without DDP's prefix. */
export type ParameterShapes = ReadonlyMap<string, readonly number[]>;

/** What shapes tell of a model. */
export interface Architecture {
  /** What can be read from shapes for certain. */
  known: Partial<ModelOptions>;
  /** What shapes only bound: the values that icefall's defaults would give, where they agree with the shapes. */
  likely: Partial<ModelOptions>;
  vocabSize: number;
}

const single = (values: readonly number[]): readonly number[] => (new Set(values).size === 1 ? values.slice(0, 1) : values);

/** Heads and the dimensions of a head, of products that icefall's defaults agree with; undefined where they do not. */
function defaultHeads(query: number, position: number, value: number): { heads: number; query: number; position: number; value: number } | undefined {
  const usual = parseOptions(modelOptions, {});
  const [q, p, v] = [usual.queryHeadDim[0], usual.posHeadDim[0], usual.valueHeadDim[0]] as [number, number, number];
  const heads = query / q;
  return Number.isInteger(heads) && heads * p === position && heads * v === value ? { heads, query: q, position: p, value: v } : undefined;
}

/**
 * Reads a model's shape from its parameters. Shapes do not tell the dimension of a head apart from the number of heads, nor chunk sizes, left
 * contexts and which channels feature masks leave alone.
 * @throws CheckpointError CHECKPOINT_MISMATCH for parameters of another kind of model
 */
export function architectureOf(shapes: ParameterShapes, at: string): Architecture {
  const dim = (key: string, axis: number): number => {
    const size = shapes.get(key)?.[axis];
    if (size === undefined)
      throw new CheckpointError("CHECKPOINT_MISMATCH", {
        at,
        message: `it has no parameter ${key}: this is no Zipformer of icefall's`,
        fix: "look at it with: serac checkpoint show",
      });
    return size;
  };
  const count = (pattern: RegExp): number => {
    let most = -1;
    for (const key of shapes.keys()) most = Math.max(most, Number(pattern.exec(key)?.[1] ?? -1));
    return most + 1;
  };
  const stacks = Array.from({ length: count(/^encoder\.encoders\.(\d+)\./) }, (_, i) => {
    const factor = shapes.get(`encoder.encoders.${i}.downsample.bias`)?.[0] ?? 1;
    const stack = `encoder.encoders.${i}${factor === 1 && !shapes.has(`encoder.encoders.${i}.downsample.bias`) ? "" : ".encoder"}.layers`;
    const first = `${stack}.0`;
    const causal = shapes.has(`${first}.conv_module1.depthwise_conv.chunkwise_conv.weight`);
    const positions = dim(`${first}.self_attn_weights.linear_pos.weight`, 0);
    return {
      factor,
      layers: count(new RegExp(`^${stack.replaceAll(".", "\\.")}\\.(\\d+)\\.`)),
      channels: dim(`${first}.norm.bias`, 0),
      feedforward: dim(`${first}.feed_forward2.in_proj.weight`, 0),
      kernel: dim(`${first}.conv_module1.depthwise_conv${causal ? ".chunkwise_conv" : ""}.weight`, 2),
      causal,
      positions,
      positionDim: dim(`${first}.self_attn_weights.linear_pos.weight`, 1),
      queries: (dim(`${first}.self_attn_weights.in_proj.weight`, 0) - positions) / 2,
      values: dim(`${first}.self_attn1.in_proj.weight`, 0),
    };
  });
  const [stack] = stacks;
  if (!stack) throw new CheckpointError("CHECKPOINT_MISMATCH", { at, message: "it has no parameter encoder.encoders.0: this is no Zipformer of icefall's" });
  const useTransducer = shapes.has("joiner.output_linear.weight");
  const useCtc = shapes.has("ctc_output.1.weight");
  const useAttentionDecoder = shapes.has("attention_decoder.decoder.embed.weight");
  const known: Partial<ModelOptions> = {
    numEncoderLayers: stacks.map(({ layers }) => layers),
    downsamplingFactor: stacks.map(({ factor }) => factor),
    encoderDim: stacks.map(({ channels }) => channels),
    feedforwardDim: stacks.map(({ feedforward }) => feedforward),
    cnnModuleKernel: stacks.map(({ kernel }) => kernel),
    posDim: stack.positionDim,
    causal: stack.causal,
    frontEndChannels: [0, 4, 7].map((layer) => dim(`encoder_embed.conv.${layer}.weight`, 0)),
    useTransducer,
    useCtc,
    useAttentionDecoder,
  };
  // The front end keeps ((F - 1) // 2 - 1) // 2 of F bins: four counts of bins, of which one is a multiple of 4.
  const bins = dim("encoder_embed.out.weight", 1) / dim("encoder_embed.conv.7.weight", 0);
  // Which channels feature masks leave alone counts in training only: all of them, where icefall's defaults do not fit.
  const usual = parseOptions(modelOptions, {}).encoderUnmaskedDim;
  const unmasked = stacks.map(({ channels }, i) => (stacks.length === usual.length ? Math.min(channels, usual[i] as number) : channels));
  const likely: Partial<ModelOptions> = { featureDim: Math.ceil((4 * bins + 3) / 4) * 4, encoderUnmaskedDim: unmasked };
  const heads = stacks.map(({ queries, positions, values }) => defaultHeads(queries, positions, values));
  if (heads.every((head) => head !== undefined)) {
    likely.numHeads = heads.map((head) => head.heads);
    likely.queryHeadDim = single(heads.map(({ query }) => query));
    likely.posHeadDim = single(heads.map(({ position }) => position));
    likely.valueHeadDim = single(heads.map(({ value }) => value));
  }
  if (useTransducer) {
    known.decoderDim = dim("decoder.embedding.weight", 1);
    known.contextSize = shapes.get("decoder.conv.weight")?.[2] ?? 1;
    known.joinerDim = dim("joiner.encoder_proj.weight", 0);
  }
  if (useAttentionDecoder) {
    known.attentionDecoderDim = dim("attention_decoder.decoder.embed.weight", 1);
    known.attentionDecoderNumLayers = count(/^attention_decoder\.decoder\.layers\.(\d+)\./);
    known.attentionDecoderAttentionDim = dim("attention_decoder.decoder.layers.0.self_attn.linear_q.weight", 0);
    known.attentionDecoderFeedforwardDim = dim("attention_decoder.decoder.layers.0.feed_forward.0.weight", 0);
  }
  const head = useTransducer ? "joiner.output_linear.weight" : useCtc ? "ctc_output.1.weight" : "attention_decoder.decoder.embed.weight";
  return { known, likely, vocabSize: dim(head, 0) };
}

/** The same values: of lists, one value stands for as many as the other has. */
function agrees(a: unknown, b: unknown): boolean {
  if (!Array.isArray(a) || !Array.isArray(b)) return a === b;
  const length = Math.max(a.length, b.length);
  const at = (list: readonly unknown[], i: number): unknown => (list.length === 1 ? list[0] : list[i]);
  return Array.from({ length }, (_, i) => at(a, i) === at(b, i)).every(Boolean);
}

/** Options that say how a model is used, not what it is: they may be given for any model. */
const ofUse: readonly (keyof ModelOptions)[] = ["chunkSize", "leftContextFrames", "encoderUnmaskedDim"];

/** Products that shapes do tell of heads. */
function checkHeads(options: ModelOptions, shapes: ParameterShapes, at: string): void {
  const of = (list: readonly number[], i: number): number => (list.length === 1 ? list[0] : list[i]) as number;
  for (let i = 0; i < options.downsamplingFactor.length; i++) {
    const first = shapes.has(`encoder.encoders.${i}.layers.0.norm.bias`) ? `encoder.encoders.${i}.layers.0` : `encoder.encoders.${i}.encoder.layers.0`;
    const heads = of(options.numHeads, i);
    const position = heads * of(options.posHeadDim, i);
    const expected = [2 * heads * of(options.queryHeadDim, i) + position, position, heads * of(options.valueHeadDim, i)];
    const keys = ["self_attn_weights.in_proj.weight", "self_attn_weights.linear_pos.weight", "self_attn1.in_proj.weight"];
    keys.forEach((key, k) => {
      const has = shapes.get(`${first}.${key}`)?.[0];
      if (has !== expected[k])
        throw new CheckpointError("CHECKPOINT_MISMATCH", {
          at,
          message: `${first}.${key} has ${has} rows, but ${heads} heads of dimensions ${of(options.queryHeadDim, i)} (query), ${of(options.posHeadDim, i)} (position) and ${of(options.valueHeadDim, i)} (value) need ${expected[k]}`,
          fix: "shapes do not tell heads from the dimensions of a head: give --num-heads, --query-head-dim, --pos-head-dim and --value-head-dim as in training",
        });
    });
  }
}

/** What a file says of its model. @throws CheckpointError CHECKPOINT_BAD */
function statedOptions(stated: Record<string, unknown>, at: string): ModelOptions {
  try {
    return parseOptions(modelOptions, stated);
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    throw new CheckpointError("CHECKPOINT_BAD", { at, message: `what it says of its model is wrong: ${messageOf(cause)}`, fix: "look at it with: serac checkpoint show", cause });
  }
}

/**
 * A model's options, from what its file says, from the shapes of its parameters, and from flags for what neither tells.
 * @param stated what the file says of its model, as icefall's parameters: texts, numbers, booleans
 * @param given flags that were given
 * @throws CheckpointError CHECKPOINT_MISMATCH that lists what contradicts what
 */
export function resolveArchitecture(
  shapes: ParameterShapes,
  { stated, given, at }: { stated: Record<string, unknown>; given: Partial<ModelOptions>; at: string },
): { options: ModelOptions; vocabSize: number } {
  const { known, likely, vocabSize } = architectureOf(shapes, at);
  const names = Object.keys(modelOptions) as (keyof ModelOptions)[];
  const saidAll = statedOptions(stated, at);
  const isStated = (name: keyof ModelOptions): boolean => stated[name] !== undefined;
  const problems: string[] = [];
  const options: Record<string, unknown> = { ...saidAll };
  for (const name of names) {
    const shape = known[name];
    const said = isStated(name) ? saidAll[name] : undefined;
    if (shape !== undefined && said !== undefined && !agrees(shape, said))
      problems.push(`it says ${flagOf(name)} ${showValue(said)}, but its parameters are of ${showValue(shape)}`);
    const value = shape ?? said ?? likely[name] ?? saidAll[name];
    const flag = given[name];
    if (flag !== undefined && !ofUse.includes(name) && (shape ?? said) !== undefined && !agrees(flag, value))
      problems.push(`${flagOf(name)} ${showValue(flag)} was given, but the checkpoint's is ${showValue(value)}`);
    options[name] = flag !== undefined && (ofUse.includes(name) || (shape ?? said) === undefined) ? flag : value;
  }
  if (problems.length > 0) throw new CheckpointError("CHECKPOINT_MISMATCH", { at, message: problems.join("; "), fix: "leave these flags out: the checkpoint tells them" });
  checkHeads(options as unknown as ModelOptions, shapes, at);
  return { options: options as unknown as ModelOptions, vocabSize };
}
