/** The audio of a cut, whether it is a file or a member of a tar. */
import { type FileHandle, open } from "node:fs/promises";
import { toFrames } from "../audio/decode.ts";
import { type Audio, readAudio } from "../audio/index.ts";
import { fileError } from "../formats/atomic.ts";
import { parseWavHeader, type WavHeader } from "../formats/wav.ts";
import { FormatError } from "../util/errors.ts";
import type { Cut } from "./cut.ts";

/** Where a member's bytes lie in a plain tar. */
export interface MemberPlace {
  name: string;
  /** Of its first byte in the tar. */
  offset: number;
  /** Bytes. */
  size: number;
}

/** A manifest's duration may be rounded: a recording that is this much longer is still played whole. Source: lhotse's reader of NeMo tars. */
const tolerance = 0.2;
const maxOpen = 64;

interface OpenTar {
  handle: Promise<FileHandle>;
  /** Reads that go on. */
  users: number;
}

/** Tars that were read last stay open; the map is in the order of use. */
const openTars = new Map<string, OpenTar>();

function use(path: string): OpenTar {
  let tar = openTars.get(path);
  if (tar) openTars.delete(path);
  else {
    tar = { handle: open(path, "r"), users: 0 };
    tar.handle.catch(() => openTars.delete(path));
    for (const [other, { handle, users }] of openTars) {
      if (openTars.size < maxOpen) break;
      if (users > 0) continue;
      openTars.delete(other);
      handle.then((old) => old.close()).catch(() => {});
    }
  }
  openTars.set(path, tar);
  tar.users++;
  return tar;
}

/**
 * The bytes of a member by one read.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE; TAR_TRUNCATED where the tar is shorter than it was
 */
export async function readMember(tar: string, { name, offset, size }: MemberPlace): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size);
  let done = 0;
  const used = use(tar);
  try {
    const file = await used.handle;
    while (done < size) {
      const { bytesRead } = await file.read(bytes, done, size - done, offset + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
  } catch (error) {
    throw fileError(tar, "read", error);
  } finally {
    used.users--;
  }
  if (done < size)
    throw new FormatError("TAR_TRUNCATED", {
      at: `${tar}:${name}`,
      message: `the archive ends inside of this member: ${done} of its ${size} bytes are there`,
      fix: "copy it again",
    });
  return bytes;
}

/** A part is read alone where it is at most this share of its member. */
const partShare = 0.5;
/** Nearly every WAV header fits into this. */
const headerBytes = 4096;

/**
 * The stretch of a WAV member that a cut plays, as a WAV file of its own: a cut of a long recording reads its own bytes and no others.
 * @returns undefined where all of the member has to be read: it is no plain WAV, or most of it is wanted
 */
async function readWavPart(tar: string, member: MemberPlace, offset: number, duration: number): Promise<Uint8Array | undefined> {
  const { name, size } = member;
  if (size < 4 * headerBytes || !Number.isFinite(duration)) return undefined;
  const first = await readMember(tar, { ...member, size: headerBytes });
  let header: WavHeader;
  try {
    header = parseWavHeader(first, { at: `${tar}:${name}`, fileSize: size });
  } catch (error) {
    if (error instanceof FormatError) return undefined; // another format, or a long header
    throw error;
  }
  const { sampleRate, numFrames, dataOffset, truncated, numChannels, bits } = header;
  const start = toFrames(offset, sampleRate);
  const frames = Math.min(toFrames(duration, sampleRate), numFrames - start);
  const width = (numChannels * bits) / 8;
  if (truncated || first.toString("latin1", 0, 4) !== "RIFF" || frames <= 0 || dataOffset + frames * width > size * partShare) return undefined;
  const data = await readMember(tar, { name, offset: member.offset + dataOffset + start * width, size: frames * width });
  const file = Buffer.concat([first.subarray(0, dataOffset), data]);
  file.writeUInt32LE(file.length - 8, 4);
  file.writeUInt32LE(data.length, dataOffset - 4); // the data chunk's size
  return file;
}

/**
 * Decodes the stretch of a recording that a cut plays. Without an offset all of it is played; in a tar, where many cuts may be of one recording,
 * one that is clearly longer than the cut is cut at the cut's duration.
 * @param bytes the member, where the caller has it already
 * @throws AudioError, FormatError
 */
export async function readCutAudio(cut: Pick<Cut, "audioPath" | "offset" | "duration" | "speed" | "member">, bytes?: Uint8Array): Promise<Audio> {
  const { audioPath, offset, member } = cut;
  const duration = cut.duration * cut.speed;
  const range = offset === undefined ? {} : { offset, duration };
  if (!member) return readAudio(audioPath, range);
  const part = bytes === undefined && offset !== undefined ? await readWavPart(audioPath, member, offset, duration) : undefined;
  if (part) return readAudio(part, {}, `${audioPath}:${member.name}`);
  const audio = await readAudio(bytes ?? (await readMember(audioPath, member)), range, `${audioPath}:${member.name}`);
  const length = audio.channels[0]?.length ?? 0;
  if (offset !== undefined || !Number.isFinite(duration) || length / audio.sampleRate <= duration + tolerance) return audio;
  const end = Math.round(duration * audio.sampleRate);
  return { sampleRate: audio.sampleRate, channels: audio.channels.map((samples) => samples.subarray(0, end)) };
}
