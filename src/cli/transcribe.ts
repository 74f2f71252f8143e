import { readAudio, resample, toMono } from "../audio/index.ts";
import type { RecognitionStream, StreamingRecognizer, Transcript } from "../decode/index.ts";
import { placed, SeracError } from "../util/errors.ts";
import { command } from "./command.ts";
import { loadRecognizer, recognizerOptions, streamingOptions, streamingRecognizer } from "./model.ts";

/** Bytes of a sample of standard input. */
const sampleBytes = 2;

/** 16-bit little-endian samples of pieces of any size, as numbers in [-1, 1]. */
async function* pcm16(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Float32Array> {
  let rest: Uint8Array = new Uint8Array(0);
  for await (const piece of pieces) {
    const bytes = Buffer.concat([rest, piece]);
    const count = Math.floor(bytes.length / sampleBytes);
    rest = bytes.subarray(count * sampleBytes);
    yield Float32Array.from({ length: count }, (_, i) => bytes.readInt16LE(i * sampleBytes) / 32768);
  }
}

/** The samples of a file at a rate, a second at a time. @throws AudioError, which names the file */
async function* samplesOf(file: string, sampleRate: number): AsyncGenerator<Float32Array> {
  const audio = await readAudio(file);
  const samples = toMono(audio);
  const atRate = audio.sampleRate === sampleRate ? samples : await resample(samples, audio.sampleRate, sampleRate);
  for (let i = 0; i < atRate.length; i += sampleRate) yield atRate.subarray(i, i + sampleRate);
}

/** What a stream of samples gives; `seen` gets the text whenever it has grown. */
async function transcribeStream(recognizer: StreamingRecognizer, samples: AsyncIterable<Float32Array>, seen: (stream: RecognitionStream) => void): Promise<Transcript> {
  const stream = recognizer.createStream();
  try {
    let length = 0;
    const decode = (): void => {
      while (recognizer.step([stream]) > 0) {
        if (stream.tokenCount > length) seen(stream);
        length = stream.tokenCount;
      }
    };
    for await (const piece of samples) {
      stream.accept(piece);
      decode();
    }
    stream.finish();
    decode();
    return { text: stream.text, tokens: stream.tokens, duration: stream.duration };
  } finally {
    stream.dispose();
  }
}

/** `serac transcribe`: text of audio files on stdout, a line each. */
export const transcribe = command({
  name: "transcribe",
  summary: "Print the text of audio files",
  description:
    "Any format that libsndfile reads, any rate, any number of channels. A file that cannot be used is named on stderr; the others are still transcribed, and the exit code is 1. With --streaming the file - is standard input, mono samples of 16 bits at the model's rate, whose text is shown on stderr as it grows.",
  examples: [
    "serac transcribe --checkpoint exp/epoch-30.pt a.wav b.flac",
    "serac transcribe --exp-dir exp --epoch 30 --avg 9 --json a.wav",
    "arecord -f S16_LE -r 16000 -t raw | serac transcribe --checkpoint exp/epoch-30.pt --streaming --chunk-size 32 --left-context-frames 256 -",
  ],
  positional: { files: { help: "audio files", many: true } },
  options: {
    ...recognizerOptions,
    ...streamingOptions,
  },
  async run({ files, ...options }, out, given) {
    const { recognizer } = loadRecognizer(options, given);
    const streams = options.streaming ? streamingRecognizer(recognizer, options) : undefined;
    const transcribe = async (file: string): Promise<Transcript> => {
      if (!streams) return recognizer.transcribe(file);
      const live = file === "-";
      try {
        return await transcribeStream(streams, live ? pcm16(process.stdin) : samplesOf(file, streams.sampleRate), (stream) => {
          if (live) out.say(stream.text);
        });
      } catch (error) {
        throw error instanceof SeracError ? placed(error, file) : error;
      }
    };
    let failed = 0;
    for (const file of files) {
      try {
        const { text, tokens, duration } = await transcribe(file);
        if (out.json) out.print(JSON.stringify({ file, text, duration, tokens }));
        else out.print(files.length === 1 ? text : `${file}\t${text}`);
      } catch (error) {
        if (!(error instanceof SeracError)) throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
        failed++;
        out.say(`serac: ${error.message}`);
        if (out.json) out.print(JSON.stringify({ file, error: { code: error.code, message: error.message } }));
      }
    }
    recognizer.dispose();
    return failed > 0 ? 1 : 0;
  },
});
