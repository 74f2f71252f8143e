import { ActivationDropoutAndLinear, Balancer, type Init, Linear, Module, type Schedule, Whiten, whiteningLimit } from "../../nn/index.ts";
import type { Tensor } from "../../torch/index.ts";

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
    return this.outWhiten.forward(this.outProj.forward(this.hiddenBalancer.forward(this.inProj.forward(x))));
  }
}
