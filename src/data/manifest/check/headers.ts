/** Headers of audio files, many at a time: WAV in TypeScript from the file's first bytes, everything else by libsndfile. */
import { close, fstat, open, read } from "node:fs";
import { promisify } from "node:util";
import { audioInfo, readAudio } from "../../../audio/index.ts";
import { parseWavHeader } from "../../../formats/wav.ts";
import { AudioError, FormatError, isErrnoException } from "../../../util/errors.ts";

/** What the header says, or why it says nothing. */
export type HeaderResult = { rate: number; channels: number; frames: number } | { failure: "missingAudio" | "unreadableAudio" | "emptyAudio"; message: string };

const openFile = promisify(open);
const readFile = promisify(read);
const closeFile = promisify(close);
const statFile = promisify(fstat);

/** Nearly every WAV header fits into this. */
const firstBytes = 4096;

async function wavHeader(path: string): Promise<HeaderResult | undefined> {
  const fd = await openFile(path, "r");
  try {
    const { size } = await statFile(fd);
    if (size === 0) return { failure: "emptyAudio", message: "the file has no bytes" };
    const { bytesRead, buffer } = await readFile(fd, Buffer.allocUnsafe(firstBytes), 0, firstBytes, 0);
    if (buffer.toString("latin1", 0, 4) !== "RIFF" && buffer.toString("latin1", 0, 4) !== "RF64") return undefined; // named .wav, and something else
    let header: ReturnType<typeof parseWavHeader>;
    try {
      header = parseWavHeader(buffer.subarray(0, bytesRead), { at: path, fileSize: size });
    } catch (error) {
      if (error instanceof FormatError) return undefined; // a long header or an encoding of its own: libsndfile decides
      throw error;
    }
    if (header.truncated) return { failure: "unreadableAudio", message: "the file ends earlier than its header says" };
    return { rate: header.sampleRate, channels: header.numChannels, frames: header.numFrames };
  } finally {
    await closeFile(fd);
  }
}

/** Reads one header; with `decode` all of the audio, which finds damage behind the header too. Never throws for what the file is. */
export async function readHeader(path: string, { decode = false }: { decode?: boolean } = {}): Promise<HeaderResult> {
  try {
    if (decode) {
      const { sampleRate, channels } = await readAudio(path);
      return { rate: sampleRate, channels: channels.length, frames: channels[0]?.length ?? 0 };
    }
    const wav = /\.wav$/i.test(path) ? await wavHeader(path) : undefined;
    if (wav !== undefined) return wav;
    const { sampleRate, channels, frames } = await audioInfo(path);
    return { rate: sampleRate, channels, frames };
  } catch (error) {
    if (error instanceof AudioError) {
      const message = error.message.replace(`${error.at}: `, "").replace(/ \[[A-Z_]+\].*$/, "");
      if (error.code === "AUDIO_MISSING") return { failure: "missingAudio", message: "no such file" };
      if (error.code === "AUDIO_EMPTY") return { failure: "emptyAudio", message };
      return { failure: "unreadableAudio", message };
    }
    if (isErrnoException(error)) {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return { failure: "missingAudio", message: "no such file" };
      return { failure: "unreadableAudio", message: error.message };
    }
    throw error;
  }
}

/** Runs `work` on every item, `width` at a time. */
export async function inParallel<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
}
