import { Recognizer } from "../decode/index.ts";
import { setThreads } from "../torch/index.ts";
import { SeracError } from "../util/errors.ts";
import { choice, integer, path } from "../util/options.ts";
import { command } from "./command.ts";

/** `serac transcribe`: text of audio files on stdout, a line each. */
export const transcribe = command({
  name: "transcribe",
  summary: "Print the text of audio files",
  description: "Any format that libsndfile reads, any rate, any number of channels. A file that cannot be used is named on stderr; the others are still transcribed, and the exit code is 1.",
  examples: ["serac transcribe --checkpoint exp/epoch-30.safetensors a.wav b.flac", "serac transcribe --checkpoint exp/epoch-30.safetensors --json a.wav"],
  positional: { files: { help: "audio files", many: true } },
  options: {
    checkpoint: path({ required: true, help: "the model: an epoch-N.safetensors file" }),
    decodingMethod: choice(["greedy_search", "ctc-greedy-search"], { help: "search; the transducer's where there is one" }),
    threads: integer({ default: 0, min: 0, help: "threads of operators; 0 leaves libtorch's choice" }),
  },
  async run({ files, checkpoint, decodingMethod, threads }, out) {
    if (threads > 0) setThreads(threads);
    const recognizer = Recognizer.load(checkpoint, decodingMethod ? { method: decodingMethod } : {});
    let failed = 0;
    for (const file of files) {
      try {
        const { text, tokens, duration } = await recognizer.transcribe(file);
        if (out.json) out.print(JSON.stringify({ file, text, duration, tokens }));
        else out.print(files.length === 1 ? text : `${file}\t${text}`);
      } catch (error) {
        if (!(error instanceof SeracError)) throw error;
        failed++;
        out.say(`serac: ${error.message}`);
        if (out.json) out.print(JSON.stringify({ file, error: { code: error.code, message: error.message } }));
      }
    }
    recognizer.dispose();
    return failed > 0 ? 1 : 0;
  },
});
