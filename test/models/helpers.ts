/** What the tests of models share. */

import { AsrModel, type AsrModelOptions } from "../../src/models/index.ts";
import { type Module, ScheduledFloat } from "../../src/nn/index.ts";
import { Generator, noGrad, type Tensor, tensor } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";
import { golden } from "../golden.ts";

/** The tensors under a prefix, without it. */
export function under(tensors: Readonly<Record<string, Tensor>>, prefix: string): Map<string, Tensor> {
  return new Map(Object.entries(tensors).flatMap(([key, value]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), value] as const] : [])));
}

/** The options that the golden files of whole models were made with. */
export function goldenOptions(metadata: Readonly<Record<string, string>>): AsrModelOptions {
  const config = JSON.parse(metadata.config as string);
  return {
    vocabSize: config.vocab_size,
    featureDim: config.feature_dim,
    numEncoderLayers: config.num_encoder_layers,
    downsamplingFactor: config.downsampling_factor,
    encoderDim: config.encoder_dim,
    encoderUnmaskedDim: config.encoder_unmasked_dim,
    queryHeadDim: config.query_head_dim,
    posHeadDim: config.pos_head_dim,
    valueHeadDim: config.value_head_dim,
    posDim: config.pos_dim,
    numHeads: config.num_heads,
    feedforwardDim: config.feedforward_dim,
    cnnModuleKernel: config.cnn_module_kernel,
    causal: config.causal,
    decoderDim: config.decoder_dim,
    joinerDim: config.joiner_dim,
    contextSize: config.context_size,
    useTransducer: true,
    useCtc: true,
    useAttentionDecoder: true,
    attentionDecoderDim: config.attention_decoder.dim,
    attentionDecoderAttentionDim: config.attention_decoder.dim,
    attentionDecoderNumLayers: config.attention_decoder.layers,
    attentionDecoderNumHeads: config.attention_decoder.heads,
    attentionDecoderFeedforwardDim: config.attention_decoder.ff,
  };
}

/** A golden file's model with its parameters, in evaluation, and its input. */
export function goldenModel(name: string): {
  model: AsrModel;
  tensors: Record<string, Tensor>;
  metadata: Readonly<Record<string, string>>;
  x: Tensor;
  xLens: number[];
  y: number[][];
} {
  const { tensors, metadata } = golden(name);
  const model = new AsrModel({ ...goldenOptions(metadata), generator: new Generator(1) });
  model.loadStateDict(under(tensors, "param."));
  model.eval();
  const ids = (tensors.y as Tensor).toArray();
  let at = 0;
  const y = (tensors.y_lens as Tensor).toArray().map((length) => ids.slice(at, (at += length)));
  return { model, tensors, metadata, x: tensors.x as Tensor, xLens: (tensors.x_lens as Tensor).toArray(), y };
}

/** Draws of which none falls below a probability: everything that is applied at random stays off. */
export class NeverRandom extends Random {
  override uniform(): number {
    return 1 - 2 ** -53;
  }
}

/** Sets all rates of dropping to zero, in a module and all below. */
export function withoutDropping(module: Module): void {
  for (const [, part] of module.namedModules()) {
    const fields = part as unknown as Record<string, unknown>;
    for (const [name, value] of Object.entries(fields)) if ((value instanceof ScheduledFloat || typeof value === "number") && /(rate|dropout|^p)$/i.test(name)) fields[name] = 0;
  }
}

/** Numbers for the parameters of a module, as the printed golden values of section 10.4 have them. */
export function fillByWaves(module: Module, wave: (shape: readonly number[], options?: { scale?: number; phase?: number }) => Float64Array): void {
  noGrad(() => {
    let index = 0;
    for (const [name, parameter] of module.namedParameters()) {
      const { shape, numel } = parameter;
      const phase = index++;
      let values: Float64Array;
      if (name.endsWith("bypass_scale")) values = wave(shape, { scale: 0.2, phase }).map((v) => v + 0.5);
      else if (name.endsWith("log_scale")) values = new Float64Array(1).fill(0.3);
      else if (shape.length > 1) values = wave(shape, { scale: 1.2 / Math.sqrt(numel / (shape[0] as number)), phase });
      else values = wave(shape, { scale: 0.1, phase });
      parameter.copy_(tensor(Array.from(values)).view(shape));
    }
  });
}
