import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { readAudio } from "../../src/audio/index.ts";
import { readCutAudio } from "../../src/data/audioSource.ts";
import { serializeWav } from "../../src/formats/wav.ts";
import { Random } from "../../src/util/random.ts";
import { memberBytes } from "../formats/tar/archives.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-source-"));
afterAll(() => rmSync(folder, { recursive: true }));
const rate = 8000;

/** A tar with one recording. */
function write(name: string, wav: Uint8Array): { audioPath: string; member: { name: string; offset: number; size: number } } {
  const audioPath = join(folder, name);
  writeFileSync(audioPath, Buffer.concat([memberBytes({ name: "a.wav", data: Buffer.from(wav) }), Buffer.alloc(1024)]));
  return { audioPath, member: { name: "a.wav", offset: 512, size: wav.length } };
}

function noise(seconds: number, channels: number): Float32Array[] {
  const random = new Random(channels);
  return Array.from({ length: channels }, () => Float32Array.from({ length: seconds * rate }, () => random.uniform() - 0.5));
}

test("any stretch of a WAV member has the samples that decoding the whole member gives", async () => {
  const cases = (["pcm8", "pcm16", "pcm24", "pcm32", "float32", "float64"] as const).flatMap((format) =>
    [1, 2].map((channels) => {
      const wav = serializeWav({ sampleRate: rate, channels: noise(4, channels) }, { format });
      return { wav, ...write(`${format}-${channels}.tar`, wav) };
    }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...cases),
      fc.double({ min: 0, max: 4.2, noNaN: true }),
      fc.double({ min: 0.001, max: 3, noNaN: true }),
      async ({ wav, ...place }, offset, duration) => {
        const whole = await readAudio(wav, { offset, duration }).catch((error: { code: string }) => error.code);
        const part = await readCutAudio({ ...place, offset, duration, speed: 1 }).catch((error: { code: string }) => error.code);
        expect(part).toEqual(whole);
      },
    ),
    { numRuns: 300 },
  );
});

test("a stretch of a long WAV reads its own bytes and no others; other formats are read whole", async () => {
  const place = write("long.tar", serializeWav({ sampleRate: rate, channels: noise(10, 1) }));
  truncateSync(place.audioPath, 512 + 44 + 2 * 2 * rate); // two seconds are left
  const { channels } = await readCutAudio({ ...place, offset: 1, duration: 1, speed: 1 });
  expect(channels[0]?.length).toBe(rate);
  await expect(readCutAudio({ ...place, offset: 1.5, duration: 1, speed: 1 })).rejects.toThrow(/long\.tar:a\.wav: the archive ends inside of this member.*TAR_TRUNCATED/);
  await expect(readCutAudio({ ...place, offset: undefined, duration: 1, speed: 1 })).rejects.toThrow(/TAR_TRUNCATED/);
  const text = write("text.tar", Buffer.alloc(100_000, "no audio "));
  await expect(readCutAudio({ ...text, offset: 1, duration: 1, speed: 1 })).rejects.toThrow(/text\.tar:a\.wav: .*AUDIO_NOT_AUDIO/);
});
