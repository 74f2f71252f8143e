import { SeracError } from "../util/errors.ts";
import { command } from "./command.ts";
import { loadRecognizer, recognizerOptions } from "./model.ts";

/** `serac transcribe`: text of audio files on stdout, a line each. */
export const transcribe = command({
  name: "transcribe",
  summary: "Print the text of audio files",
  description:
    "Any format that libsndfile reads, any rate, any number of channels. A file that cannot be used is named on stderr; the others are still transcribed, and the exit code is 1.",
  examples: ["serac transcribe --checkpoint exp/epoch-30.pt a.wav b.flac", "serac transcribe --exp-dir exp --epoch 30 --avg 9 --json a.wav"],
  positional: { files: { help: "audio files", many: true } },
  options: {
    ...recognizerOptions,
  },
  async run({ files, ...options }, out) {
    const { recognizer } = loadRecognizer(options);
    let failed = 0;
    for (const file of files) {
      try {
        const { text, tokens, duration } = await recognizer.transcribe(file);
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
