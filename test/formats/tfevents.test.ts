import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { crc32c } from "../../src/formats/crc32.ts";
import { EventFile, scalarEvent, tfRecord, versionEvent } from "../../src/formats/index.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-events-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Written by TensorBoard 2.21's RecordWriter: scripts/interop/event-files.py write. */
const reference = Buffer.from(
  "GAAAAAAAAACjf0siCQAAEED8VNlBGg1icmFpbi5FdmVudDoyM40v6SkAAAAAAAAAN/9fAAkAACBA/FTZQRAyKhwKGgoTdHJhaW4vbGVhcm5pbmdfcmF0ZRXsUTg9CoXtJCgAAAAAAAAA/3AWSgkAACBA/FTZQRCAvMGWCyoXChUKDnRyYWluL3RvdF9sb3NzFbAPITTrkVzmJAAAAAAAAABCK4BNCQAAIED8VNlBKhkKFwoQdHJhaW4vZ3JhZF9zY2FsZRUAAIB/AAl9Tw==",
  "base64",
);
const scalars = [
  ["train/learning_rate", 0.045, 50],
  ["train/tot_loss", 1.5e-7, 3_000_000_000],
  ["train/grad_scale", Number.POSITIVE_INFINITY, 0],
] as const;

test("CRC-32C has its check value", () => {
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283); // RFC 3720, appendix B.4
  expect(crc32c(Buffer.from("456789"), crc32c(Buffer.from("123")))).toBe(0xe3069283);
});

test("events are TensorBoard's, byte for byte", () => {
  const events = [versionEvent(1700000000.25), ...scalars.map(([tag, value, step]) => scalarEvent(tag, value, { step, time: 1700000000.5 }))];
  expect(Buffer.concat(events.map(tfRecord)).equals(reference)).toBe(true);
});

test("a file holds its events when they are added, and closing it twice does no harm", () => {
  let time = 1700000000.25;
  const file = new EventFile(join(folder, "tensorboard"), { now: () => time });
  time = 1700000000.5;
  for (const [tag, value, step] of scalars) file.add({ [tag]: value }, step);
  expect(readFileSync(file.path).equals(reference)).toBe(true);
  expect(readdirSync(join(folder, "tensorboard"))).toEqual([expect.stringMatching(/^events\.out\.tfevents\.1700000000\./)]);
  file.close();
  file.close();
  file.add({ late: 1 }, 1);
  expect(readFileSync(file.path).byteLength).toBe(reference.byteLength);
});

test("records can be told apart again, whatever is in them", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), (messages) => {
      let bytes: Buffer = Buffer.concat(messages.map(tfRecord));
      const read: Uint8Array[] = [];
      while (bytes.byteLength > 0) {
        const length = Number(bytes.readBigUInt64LE());
        read.push(bytes.subarray(12, 12 + length));
        expect(bytes.subarray(0, 16 + length).equals(tfRecord(bytes.subarray(12, 12 + length)))).toBe(true);
        bytes = bytes.subarray(16 + length);
      }
      expect(read.map((part) => [...part])).toEqual(messages.map((part) => [...part]));
    }),
  );
});
