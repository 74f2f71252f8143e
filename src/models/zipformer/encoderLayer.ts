import { Balancer, BiasNorm, Bypass, expectChannels, type Init, Module, type Schedule, ScheduledFloat, scheduled, utteranceMask, Whiten, whiteningLimit } from "../../nn/index.ts";
import { full, ops, scope, type Tensor } from "../../torch/index.ts";
import { AttentionWeights } from "./attentionWeights.ts";
import { ConvolutionModule } from "./convolution.ts";
import { Feedforward } from "./feedforward.ts";
import { NonlinAttention } from "./nonlinAttention.ts";
import { SelfAttention } from "./selfAttention.ts";
import type { LayerCache, LayerCacheSizes } from "./streamingStates.ts";

/** Options of EncoderLayer. */
export interface EncoderLayerOptions extends Init {
  channels: number;
  posDim: number;
  heads: number;
  queryHeadDim: number;
  posHeadDim: number;
  valueHeadDim: number;
  /** Hidden size of the second feed-forward; the first has 3/4, the third 5/4 of it. */
  feedforwardDim: number;
  kernelSize: number;
  causal: boolean;
  dropout: Schedule;
  /** Probability that an utterance goes around the layer. */
  bypassSkipRate: Schedule;
}

/** What the layers of a stack share in a forward pass. */
export interface StackContext {
  /** (1, 2 T - 1, D) */
  posEmb: Tensor;
  /** Bool, broadcasts to (N, T, T), true = not attended to; null for none. */
  attentionMask: Tensor | null;
  /** (N, T) bool, true = padded; null for none. */
  padding: Tensor | null;
  /** Frames of a chunk; negative for no chunks. */
  chunkSize: number;
}

/** What the layers of a stack share while streaming. */
export interface StreamingContext {
  /** (1, L + 2 T - 1, D) */
  posEmb: Tensor;
  /** (N, L + T) bool, true = not attended to */
  mask: Tensor;
}

/** A Zipformer block. Source: Zipformer (arXiv 2310.11230), section 3.2; icefall zipformer/zipformer.py (Zipformer2EncoderLayer). */
export class EncoderLayer extends Module {
  private readonly bypass: Bypass;
  private readonly bypassMid: Bypass;
  private readonly attentionWeights: AttentionWeights;
  private readonly selfAttention1: SelfAttention;
  private readonly selfAttention2: SelfAttention;
  private readonly feedforward1: Feedforward;
  private readonly feedforward2: Feedforward;
  private readonly feedforward3: Feedforward;
  private readonly nonlinAttention: NonlinAttention;
  private readonly convolution1: ConvolutionModule;
  private readonly convolution2: ConvolutionModule;
  private readonly norm: BiasNorm;
  private readonly balancer1: Balancer;
  private readonly balancer2: Balancer;
  private readonly balancerNonlin: Balancer;
  private readonly balancerFeedforward2: Balancer;
  private readonly balancerFeedforward3: Balancer;
  private readonly whiten: Whiten;
  private readonly channels: number;
  /** Widths of what a layer remembers while streaming. */
  readonly cacheSizes: LayerCacheSizes;
  attentionSkipRate: Schedule = new ScheduledFloat([
    [0, 0.2],
    [4000, 0.05],
    [16000, 0],
  ]); // prettier-ignore
  convolutionSkipRate: Schedule = new ScheduledFloat([
    [0, 0.2],
    [4000, 0.05],
    [16000, 0],
  ]); // prettier-ignore
  constantAttentionRate: Schedule = new ScheduledFloat([
    [0, 0.25],
    [4000, 0.025],
  ]); // prettier-ignore
  feedforward2SkipRate: Schedule = new ScheduledFloat([
    [0, 0.1],
    [4000, 0.01],
    [50000, 0],
  ]); // prettier-ignore
  feedforward3SkipRate: Schedule = new ScheduledFloat([
    [0, 0.1],
    [4000, 0.01],
    [50000, 0],
  ]); // prettier-ignore

  constructor({ channels, posDim, heads, queryHeadDim, posHeadDim, valueHeadDim, feedforwardDim, kernelSize, causal, dropout, bypassSkipRate, generator }: EncoderLayerOptions) {
    super();
    this.channels = channels;
    this.parameter("bypass_scale", full([channels], 0.5, { device: generator.device })); // unused; checkpoints have it
    this.bypass = this.child("bypass", new Bypass({ channels, skipRate: bypassSkipRate, generator }));
    this.bypassMid = this.child("bypass_mid", new Bypass({ channels, generator }));
    this.attentionWeights = this.child("self_attn_weights", new AttentionWeights({ channels, posDim, heads, queryHeadDim, posHeadDim, generator }));
    this.selfAttention1 = this.child("self_attn1", new SelfAttention({ channels, heads, valueHeadDim, generator }));
    this.selfAttention2 = this.child("self_attn2", new SelfAttention({ channels, heads, valueHeadDim, generator }));
    this.feedforward1 = this.child("feed_forward1", new Feedforward({ channels, hidden: Math.floor((feedforwardDim * 3) / 4), dropout, generator }));
    this.feedforward2 = this.child("feed_forward2", new Feedforward({ channels, hidden: feedforwardDim, dropout, generator }));
    this.feedforward3 = this.child("feed_forward3", new Feedforward({ channels, hidden: Math.floor((feedforwardDim * 5) / 4), dropout, generator }));
    this.nonlinAttention = this.child("nonlin_attention", new NonlinAttention({ channels, hidden: Math.floor((3 * channels) / 4), generator }));
    this.convolution1 = this.child("conv_module1", new ConvolutionModule({ channels, kernelSize, causal, generator }));
    this.convolution2 = this.child("conv_module2", new ConvolutionModule({ channels, kernelSize, causal, generator }));
    this.norm = this.child("norm", new BiasNorm({ channels, generator }));
    const at = { channelDim: -1 };
    this.balancer1 = this.child("balancer1", new Balancer({ ...at, minPositive: 0.45, maxPositive: 0.55, minAbs: 0.2, maxAbs: 4 }));
    const minNonlin = new ScheduledFloat([
      [0, 0.004],
      [4000, 0.02],
    ]); // prettier-ignore
    this.balancerNonlin = this.child("balancer_na", new Balancer({ ...at, minPositive: 0.3, maxPositive: 0.7, minAbs: minNonlin, prob: 0.05 }));
    const minFeedforward2 = new ScheduledFloat([
      [0, 0],
      [4000, 0.1],
    ]); // prettier-ignore
    this.balancerFeedforward2 = this.child("balancer_ff2", new Balancer({ ...at, minPositive: 0.3, maxPositive: 0.7, minAbs: minFeedforward2, maxAbs: 2, prob: 0.05 }));
    const minFeedforward3 = new ScheduledFloat([
      [0, 0],
      [4000, 0.2],
    ]); // prettier-ignore
    this.balancerFeedforward3 = this.child("balancer_ff3", new Balancer({ ...at, minPositive: 0.3, maxPositive: 0.7, minAbs: minFeedforward3, maxAbs: 4, prob: 0.05 }));
    this.whiten = this.child("whiten", new Whiten({ groups: 1, limit: whiteningLimit(4, 3), gradScale: 0.01 }));
    this.balancer2 = this.child("balancer2", new Balancer({ ...at, minPositive: 0.45, maxPositive: 0.55, minAbs: 0.1, maxAbs: 4 }));
    this.cacheSizes = { key: heads * queryHeadDim, nonlinAttention: Math.floor((3 * channels) / 4), values: heads * valueHeadDim, channels, past: Math.floor(kernelSize / 2) };
  }

  /** @param x (T, N, C) @returns (T, N, C) */
  forward(x: Tensor, context: StackContext): Tensor {
    expectChannels("EncoderLayer", x, this.channels);
    return scope(() => {
      const { weights, first } = scope(() => this.attentionWeights.forward(x, context.posEmb, context.attentionMask));
      const rate = (schedule: Schedule): number => (this.training ? scheduled(schedule, this.run) : 0);
      const attentionMask = this.mask(x, rate(this.attentionSkipRate)); // one draw for the three attention parts
      const convolution = (module: ConvolutionModule, src: Tensor): Tensor =>
        this.add(
          src,
          scope(() => module.forward(src, context)),
          this.mask(src, rate(this.convolutionSkipRate)),
        );
      let src = x.add(scope(() => this.feedforward1.forward(x)));
      src = this.add(
        src,
        scope(() => this.balancerNonlin.forward(this.nonlinAttention.forward(src, this.headWeights(first, rate(this.constantAttentionRate))))),
        attentionMask,
      );
      src = this.add(
        src,
        scope(() => this.selfAttention1.forward(src, weights)),
        attentionMask,
      );
      src = convolution(this.convolution1, src);
      src = this.add(
        src,
        scope(() => this.balancerFeedforward2.forward(this.feedforward2.forward(src))),
        this.mask(src, rate(this.feedforward2SkipRate)),
      );
      src = this.bypassMid.forward(x, src);
      src = this.add(
        src,
        scope(() => this.selfAttention2.forward(src, weights)),
        attentionMask,
      );
      src = convolution(this.convolution2, src);
      src = this.add(
        src,
        scope(() => this.balancerFeedforward3.forward(this.feedforward3.forward(src))),
        this.mask(src, rate(this.feedforward3SkipRate)),
      );
      src = this.norm.forward(this.balancer1.forward(src));
      return this.whiten.forward(this.balancer2.forward(this.bypass.forward(x, src)));
    });
  }

  /**
   * The layer for one chunk and the frames before it. Only of a causal layer, in evaluation.
   * @param x (T, N, C), a whole chunk
   * @returns x (T, N, C) and what to remember
   */
  streamingForward(x: Tensor, cache: LayerCache, { posEmb, mask }: StreamingContext): { x: Tensor; cache: LayerCache } {
    expectChannels("EncoderLayer", x, this.channels);
    return scope(() => {
      const attention = this.attentionWeights.streamingForward(x, posEmb, cache.key, mask);
      const { weights, first } = attention;
      let src = x.add(this.feedforward1.forward(x));
      const nonlin = this.nonlinAttention.streamingForward(src, first, cache.nonlinAttention);
      src = src.add(nonlin.y);
      const attended1 = this.selfAttention1.streamingForward(src, weights, cache.values1);
      src = src.add(attended1.y);
      const convolved1 = this.convolution1.streamingForward(src, cache.convolution1);
      src = src.add(convolved1.y);
      src = src.add(this.feedforward2.forward(src));
      src = this.bypassMid.forward(x, src);
      const attended2 = this.selfAttention2.streamingForward(src, weights, cache.values2);
      src = src.add(attended2.y);
      const convolved2 = this.convolution2.streamingForward(src, cache.convolution2);
      src = src.add(convolved2.y);
      src = src.add(this.feedforward3.forward(src));
      return {
        x: this.bypass.forward(x, this.norm.forward(src)),
        cache: {
          key: attention.key,
          nonlinAttention: nonlin.values,
          values1: attended1.values,
          values2: attended2.values,
          convolution1: convolved1.last,
          convolution2: convolved2.last,
        },
      };
    });
  }

  /** The first head's weights (N, T, T); while training now and then the mean over all that it may attend to. */
  private headWeights(first: Tensor, constantRate: number): Tensor {
    if (!this.training || !(this.random.uniform() < constantRate)) return first;
    const attended = first.detach().gt(0).to({ dtype: first.dtype });
    return attended.div(attended.sum([-1], true));
  }

  /** (N): 1 for the utterances that keep a part of the layer, 0 for the others; null when all do. */
  private mask(x: Tensor, rate: number): Tensor | null {
    return rate > 0 ? utteranceMask(this.random, x.size(1), rate, [x.size(1)], x) : null;
  }

  private add(src: Tensor, part: Tensor, mask: Tensor | null): Tensor {
    return ops.residual(src, part, mask);
  }
}
