/**
 * WAV files: PCM of 8, 16, 24 and 32 bits and floats of 32 and 64, plain, WAVE_FORMAT_EXTENSIBLE, or RF64.
 * Sizes that streaming writers leave wrong are read to the end of the bytes.
 * Source: RIFF/WAVE (Microsoft), RF64 (EBU Tech 3306); sample scaling as libsndfile: integer / 2^(bits - 1).
 */
import { FormatError } from "../util/errors.ts";

/** Samples by channel, all of one length, in [-1, 1) for integer encodings. */
export interface PcmAudio {
  /** Hertz. */
  sampleRate: number;
  channels: Float32Array[];
}

/** What stands before the samples. */
export interface WavHeader {
  sampleRate: number;
  numChannels: number;
  encoding: "int" | "float";
  /** Bits of a stored sample. */
  bits: 8 | 16 | 24 | 32 | 64;
  /** Where the samples begin, in bytes. */
  dataOffset: number;
  /** Samples of each channel that are really there. */
  numFrames: number;
  /** The header promises more samples than there are (and not by a streaming writer's placeholder). */
  truncated: boolean;
}

/** Encodings that can be written. */
export type WavFormat = "pcm8" | "pcm16" | "pcm24" | "pcm32" | "float32" | "float64";

const formatPcm = 1;
const formatFloat = 3;
const formatExtensible = 0xfffe;
const maxChannels = 8;
const placeholder = 0x7fff0000; // ffmpeg leaves 0xffffffff, sox 0x7ffff000 or so, others 0

function fourCC(view: DataView, at: number): string {
  return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));
}

function parseFormat(view: DataView, start: number, size: number, at: string): Pick<WavHeader, "sampleRate" | "numChannels" | "encoding" | "bits"> & { blockAlign: number } {
  if (size < 16 || start + 16 > view.byteLength) throw new FormatError("WAV_BAD", { at, message: "the format chunk is cut short" });
  let tag = view.getUint16(start, true);
  const numChannels = view.getUint16(start + 2, true);
  const sampleRate = view.getUint32(start + 4, true);
  const blockAlign = view.getUint16(start + 12, true);
  const bits = view.getUint16(start + 14, true);
  if (tag === formatExtensible) {
    if (size < 26 || start + 26 > view.byteLength) throw new FormatError("WAV_BAD", { at, message: "the extensible format chunk is cut short" });
    tag = view.getUint16(start + 24, true); // the sub-format's GUID begins with the plain tag
  }
  if (tag !== formatPcm && tag !== formatFloat) throw new FormatError("WAV_UNSUPPORTED", { at, message: `encoding 0x${tag.toString(16)} is neither PCM nor float` });
  const encoding = tag === formatPcm ? "int" : "float";
  const widths: readonly number[] = encoding === "int" ? [8, 16, 24, 32] : [32, 64];
  if (!widths.includes(bits)) throw new FormatError("WAV_UNSUPPORTED", { at, message: `${bits} bits a sample: ${encoding} samples have ${widths.join(", ")}` });
  if (numChannels < 1 || numChannels > maxChannels) throw new FormatError("WAV_UNSUPPORTED", { at, message: `${numChannels} channels: 1 to ${maxChannels} can be read` });
  if (sampleRate === 0) throw new FormatError("WAV_BAD", { at, message: "the sampling rate is 0" });
  if (blockAlign !== (bits / 8) * numChannels)
    throw new FormatError("WAV_BAD", { at, message: `a frame of ${blockAlign} bytes does not fit ${numChannels} channels of ${bits} bits` });
  return { sampleRate, numChannels, encoding, bits: bits as WavHeader["bits"], blockAlign };
}

/** True where a chunk may begin: its name is of printable ASCII, and it fits into what is left of the file. So few bytes that none can be seen count as one. */
function isChunk(view: DataView, at: number, left: number): boolean {
  if (at + 8 > view.byteLength) return true;
  return /^[ -~]{4}$/.test(fourCC(view, at)) && view.getUint32(at + 4, true) <= left - 8;
}

/**
 * Finds the samples. `bytes` may be the beginning of a file, as long as it reaches the data chunk; `fileSize` is then the length of the whole.
 * @param at the name that errors give
 * @throws FormatError WAV_BAD, WAV_UNSUPPORTED
 */
export function parseWavHeader(bytes: Uint8Array, { at = "wav", fileSize = bytes.byteLength }: { at?: string; fileSize?: number } = {}): WavHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = view.byteLength >= 12 ? fourCC(view, 0) : "";
  if ((magic !== "RIFF" && magic !== "RF64") || fourCC(view, 8) !== "WAVE") throw new FormatError("WAV_BAD", { at, message: "does not begin as a WAV file does" });
  const riffSize = view.getUint32(4, true);
  let format: ReturnType<typeof parseFormat> | undefined;
  let size64: number | undefined;
  let position = 12;
  while (position + 8 <= view.byteLength) {
    const id = fourCC(view, position);
    const size = view.getUint32(position + 4, true);
    const start = position + 8;
    if (id === "ds64" && size >= 16 && start + 16 <= view.byteLength) size64 = Number(view.getBigUint64(start + 8, true));
    else if (id === "fmt ") format = parseFormat(view, start, size, at);
    else if (id === "data") {
      if (format === undefined) throw new FormatError("WAV_BAD", { at, message: "no format chunk before the data" });
      const declared = size === 0xffffffff && size64 !== undefined ? size64 : size;
      const present = Math.max(0, fileSize - start);
      // Behind the data of an honest empty file further chunks may stand; where a streaming writer left the 0, samples do.
      const streamed =
        (declared >= placeholder && declared > present) || (declared === 0 && present > 0 && (riffSize >= placeholder || riffSize + 8 <= start || !isChunk(view, start, present)));
      const usable = streamed ? present : Math.min(declared, present);
      const { blockAlign, ...rest } = format;
      return { ...rest, dataOffset: start, numFrames: Math.floor(usable / blockAlign), truncated: !streamed && declared > present };
    }
    position = start + size + (size % 2); // chunks are padded to even sizes
  }
  throw new FormatError("WAV_BAD", { at, message: format === undefined ? "no format chunk" : "no data chunk" });
}

/** Little-endian signed readers by width; scaled to [-1, 1). */
function readerOf(view: DataView, { encoding, bits }: WavHeader): (offset: number) => number {
  if (encoding === "float") return bits === 32 ? (o) => view.getFloat32(o, true) : (o) => view.getFloat64(o, true);
  switch (bits) {
    case 8:
      return (o) => (view.getUint8(o) - 128) / 128;
    case 16:
      return (o) => view.getInt16(o, true) / 32768;
    case 24:
      return (o) => ((view.getInt8(o + 2) << 16) | view.getUint16(o, true)) / 8388608;
    default:
      return (o) => view.getInt32(o, true) / 2147483648;
  }
}

/**
 * Decodes a whole file, or `frames` of it.
 * @param at the name that errors give
 * @param start the first frame, counted from 0
 * @param frames how many; those that are there where fewer are
 * @throws FormatError WAV_BAD, WAV_UNSUPPORTED
 */
export function parseWav(bytes: Uint8Array, { at = "wav", start = 0, frames = Infinity }: { at?: string; start?: number; frames?: number } = {}): PcmAudio {
  const header = parseWavHeader(bytes, { at });
  const { numChannels, bits, sampleRate } = header;
  const count = Math.max(0, Math.min(frames, header.numFrames - start));
  const width = bits / 8;
  const read = readerOf(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), header);
  const channels = Array.from({ length: numChannels }, (_, c) => {
    const samples = new Float32Array(count);
    let offset = header.dataOffset + (start * numChannels + c) * width;
    for (let i = 0; i < count; i++, offset += numChannels * width) samples[i] = read(offset);
    return samples;
  });
  return { sampleRate, channels };
}

/**
 * The bytes of a file. Integer encodings round to nearest and clip at full scale.
 * @throws FormatError WAV_UNSUPPORTED for no or too many channels, channels of different lengths, NaN in an integer encoding, or 4 GB and more
 */
export function serializeWav({ sampleRate, channels }: PcmAudio, { format = "pcm16" }: { format?: WavFormat } = {}): Uint8Array {
  const bad = (message: string) => new FormatError("WAV_UNSUPPORTED", { message });
  const numFrames = channels[0]?.length ?? 0;
  if (channels.length < 1 || channels.length > maxChannels) throw bad(`${channels.length} channels: 1 to ${maxChannels} can be written`);
  if (channels.some((c) => c.length !== numFrames)) throw bad("the channels have different lengths");
  if (!Number.isInteger(sampleRate) || sampleRate <= 0 || sampleRate > 0xffffffff) throw bad(`a sampling rate of ${sampleRate} cannot be written`);
  const isFloat = format.startsWith("float");
  const bits = Number(format.slice(isFloat ? 5 : 3));
  const width = bits / 8;
  const dataSize = numFrames * channels.length * width;
  const formatSize = isFloat ? 18 : 16;
  const dataOffset = 12 + 8 + formatSize + (isFloat ? 12 : 0) + 8;
  const fileSize = dataOffset + dataSize + (dataSize % 2);
  if (fileSize - 8 > 0xffffffff) throw bad("more than 4 GB do not fit into a WAV file");
  const bytes = new Uint8Array(fileSize);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const text = (s: string) => {
    for (const char of s) view.setUint8(at++, char.charCodeAt(0));
  };
  const u32 = (x: number) => {
    view.setUint32(at, x, true);
    at += 4;
  };
  const u16 = (x: number) => {
    view.setUint16(at, x, true);
    at += 2;
  };
  text("RIFF");
  u32(fileSize - 8);
  text("WAVEfmt ");
  u32(formatSize);
  u16(isFloat ? formatFloat : formatPcm);
  u16(channels.length);
  u32(sampleRate);
  u32(sampleRate * channels.length * width);
  u16(channels.length * width);
  u16(bits);
  if (isFloat) {
    u16(0); // no extension
    text("fact"); // wanted beside every encoding but PCM
    u32(4);
    u32(numFrames);
  }
  text("data");
  u32(dataSize);
  const scale = 2 ** (bits - 1);
  channels.forEach((samples, c) => {
    let offset = dataOffset + c * width;
    for (let i = 0; i < numFrames; i++, offset += channels.length * width) {
      const x = samples[i] as number;
      if (isFloat) {
        if (bits === 32) view.setFloat32(offset, x, true);
        else view.setFloat64(offset, x, true);
        continue;
      }
      if (Number.isNaN(x)) throw bad(`sample ${i} of channel ${c} is not a number`);
      const n = Math.max(-scale, Math.min(scale - 1, Math.round(x * scale)));
      if (bits === 8) view.setUint8(offset, n + 128);
      else if (bits === 16) view.setInt16(offset, n, true);
      else if (bits === 32) view.setInt32(offset, n, true);
      else {
        view.setUint16(offset, n & 0xffff, true);
        view.setInt8(offset + 2, n >> 16);
      }
    }
  });
  return bytes;
}
