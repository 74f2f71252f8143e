import { ActivationDropoutAndLinear, Balancer, type Init, Linear, Module, type Parameter, type Schedule, scheduled, Whiten, whiteningLimit } from "../../nn/index.ts";
import { ops, type Tensor } from "../../torch/index.ts";

/** Linear, SwooshL, dropout that is the same for all frames, linear. Source: icefall zipformer/zipformer.py (FeedforwardModule). */
export class Feedforward extends Module {
  private readonly inProj: Linear;
  private readonly hiddenBalancer: Balancer;
  private readonly outProj: ActivationDropoutAndLinear;
  private readonly outWhiten: Whiten;

  constructor({ channels, hidden, dropout, generator }: Init & { channels: number; hidden: number; dropout: Schedule }) {
    super();
    this.inProj = this.child("in_proj", new Linear({ inFeatures: channels, outFeatures: hidden, generator }));
    this.hiddenBalancer = this.child("hidden_balancer", new Balancer({ channelDim: -1, minPositive: 0.3, maxPositive: 1, minAbs: 0.75, maxAbs: 5 }));
    this.outProj = this.child(
      "out_proj",
      new ActivationDropoutAndLinear({ inFeatures: hidden, outFeatures: channels, activation: "SwooshL", dropout, sharedDim: 0, initialScale: 0.1, generator }),
    );
    this.outWhiten = this.child("out_whiten", new Whiten({ groups: 1, limit: whiteningLimit(7.5), gradScale: 0.01 }));
  }

  /** @param x (T, N, C) @returns (T, N, C) */
  forward(x: Tensor): Tensor {
    const { inProj, outProj, hiddenBalancer, training } = this;
    const p = training ? scheduled(outProj.dropout, this.run) : 0;
    const y = ops.feedforward(x, inProj.weight, inProj.bias as Parameter, outProj.weight, outProj.bias, training ? hiddenBalancer.draw() : [], p, p > 0 ? this.generator : null);
    return this.outWhiten.forward(y);
  }
}
