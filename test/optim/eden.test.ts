import { describe, expect, test } from "vitest";
import { Eden, Eden2 } from "../../src/optim/index.ts";
import { golden } from "../golden.ts";

interface EdenGolden {
  base_lr: number;
  lr_batches: number;
  lr_epochs: number;
  warmup_batches: number;
  rows_epoch_batch_lr: Record<string, [number, number, number][]>;
}

describe("Eden", () => {
  test.each(["0.5", "0.1"])("has the reference's rates with a warm-up from %s", (start) => {
    const g = JSON.parse(golden("extras").metadata.eden as string) as EdenGolden;
    const optimizer = { lr: g.base_lr };
    const eden = new Eden(optimizer, { lrBatches: g.lr_batches, lrEpochs: g.lr_epochs, warmupBatches: g.warmup_batches, warmupStart: Number(start) });
    const rows = g.rows_epoch_batch_lr[start] as [number, number, number][];
    expect(rows.length).toBeGreaterThan(5);
    for (const [epoch, batch, lr] of rows) {
      eden.stepEpoch(epoch);
      eden.stepBatch(batch);
      expect(Math.abs(optimizer.lr / lr - 1)).toBeLessThan(1e-12);
    }
  });

  test("has the printed rates", () => {
    const optimizer = { lr: 0.045 };
    const eden = new Eden(optimizer, { lrBatches: 7500, lrEpochs: 3.5, warmupStart: 0.1 });
    for (const [batch, epoch, lr] of [
      [0, 0, 0.0045],
      [250, 0, 0.02474313],
      [500, 0, 0.044950138],
      [7500, 0, 0.037840339],
      [7500, 3, 0.032972305],
      [100000, 20, 0.005109495],
    ] as const) {
      eden.stepEpoch(epoch);
      eden.stepBatch(batch);
      expect(optimizer.lr).toBeCloseTo(lr, 9);
    }
  });

  test("counts by itself and goes on from its state", () => {
    const optimizer = { lr: 1 };
    const eden = new Eden(optimizer, { lrBatches: 10, lrEpochs: 2 });
    for (let i = 0; i < 5; i++) eden.stepBatch();
    eden.stepEpoch();
    expect(eden.stateDict()).toEqual({ epoch: 1, batch: 5 });
    const other = { lr: 1 };
    new Eden(other, { lrBatches: 10, lrEpochs: 2 }).loadStateDict(eden.stateDict());
    expect(other.lr).toBe(optimizer.lr);
    expect(other.lr).toBeLessThan(1);
  });

  test("refuses options out of their range", () => {
    expect(() => new Eden({ lr: 1 }, { lrBatches: 0, lrEpochs: 1 })).toThrow(/lrBatches/);
    expect(() => new Eden({ lr: 1 }, { lrBatches: 1, lrEpochs: 1, warmupStart: 2 })).toThrow(/warmupStart/);
  });
});

describe("Eden2", () => {
  test("falls with the square root of what Eden's batches do twice, and warms up", () => {
    const optimizer = { lr: 0.05 };
    const eden = new Eden2(optimizer, { lrBatches: 100, warmupBatches: 10, warmupStart: 0.1 });
    expect(optimizer.lr).toBeCloseTo(0.005, 12);
    eden.stepBatch(5);
    expect(optimizer.lr).toBeCloseTo(0.05 * (1 + 0.0025) ** -0.5 * 0.55, 12);
    eden.stepBatch(300);
    eden.stepEpoch(7); // counts, but has no part in the rate
    expect(optimizer.lr).toBeCloseTo(0.05 * 10 ** -0.5, 12);
    expect(eden.stateDict()).toEqual({ epoch: 7, batch: 300 });
    expect(() => new Eden2({ lr: 1 }, { lrBatches: 0 })).toThrow(/lrBatches/);
  });
});
