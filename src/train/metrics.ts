/** Sums of losses over frames, and how they fade. Source: icefall utils.py, MetricsTracker. */
import { general } from "../util/printf.ts";

/** Names of losses and their sums; `frames` counts what they are divided by. */
export type LossSums = Record<string, number> & { frames: number };

/** Losses per frame. */
export function perFrame({ frames, ...sums }: LossSums): Record<string, number> {
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / frames]));
}

/** Adds b to a, which first fades by the factor. What is not finite is passed over, so that one batch does not hide all after it. */
export function addLosses(a: LossSums | undefined, b: LossSums, fade = 1): LossSums {
  const sum: LossSums = { frames: 0 };
  for (const name of new Set([...Object.keys(a ?? {}), ...Object.keys(b)])) {
    const before = a?.[name] ?? 0;
    const now = b[name] ?? 0;
    sum[name] = before * fade + (Number.isFinite(now) ? now : 0);
  }
  return sum;
}

/** The losses of a batch that was computed in two parts. A part that is not finite makes the sum so. */
export function sumLosses(a: LossSums, b: LossSums): LossSums {
  const sum: LossSums = { ...a };
  for (const [name, value] of Object.entries(b)) sum[name] = (a[name] ?? 0) + value;
  return sum;
}

/** icefall's "loss=0.2135, ctc_loss=0.1013, over 12345.00 frames. " */
export function showLosses(sums: LossSums): string {
  const losses = Object.entries(perFrame(sums)).map(([name, value]) => `${name}=${general(value, 4)}`);
  return `${losses.join(", ")}, over ${sums.frames.toFixed(2)} frames. `;
}
