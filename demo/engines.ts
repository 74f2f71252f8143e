/** Speech synthesizers: each says a list of takes into WAV files. Every engine runs on this machine; none is asked to stream or to play. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { EngineName, Voice } from "./voices.ts";

/** One thing said once by one voice. */
export interface Take {
  /** The file's name without its ending, unique in its folder. */
  id: string;
  voice: Voice;
  text: string;
  /** How much slower than the engine's own speed: 1.5 makes a word half as long again. */
  stretch: number;
  /** The mean pitch relative to the engine's own. Ignored where the engine offers no way to change it. */
  pitch: number;
}

/** The command of each engine, and Debian's packages that bring it with its voices. */
export const engineNeeds: Record<EngineName, { command: string; packages: string }> = {
  flite: { command: "flite", packages: "flite" },
  festival: { command: "festival", packages: "festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts" },
  espeak: { command: "espeak-ng", packages: "espeak-ng" },
  rhvoice: { command: "RHVoice-test", packages: "rhvoice rhvoice-english (component non-free)" },
  pico: { command: "pico2wave", packages: "libttspico-utils (component non-free)" },
};

/** @returns whether the engine's command is found */
export function engineAvailable(engine: EngineName): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => folder !== "" && existsSync(join(folder, engineNeeds[engine].command)));
}

/**
 * Says the takes, all of one engine, into `folder/<id>.wav`, each written beside and renamed.
 * The engine's sampling rate and silences are kept.
 */
export async function sayTakes(takes: readonly Take[], folder: string): Promise<void> {
  const engine = takes[0]?.voice.engine;
  if (engine === undefined) return;
  if (engine === "festival") return await sayByFestival(takes, folder);
  for (const take of takes) {
    const path = join(folder, `${take.id}.wav`);
    const part = join(folder, `${take.id}.part.wav`); // pico2wave insists on the ending
    await run(commandLine(take, part), engine === "rhvoice" ? take.text : "");
    await rename(part, path);
  }
}

/** The command that says one take into a file. */
function commandLine({ voice, text, stretch, pitch }: Take, path: string): [string, string[]] {
  switch (voice.engine) {
    case "flite": {
      const settings = ["--setf", `duration_stretch=${stretch.toFixed(3)}`];
      if (pitch !== 1 && voice.pitch !== undefined) settings.push("--setf", `int_f0_target_mean=${(voice.pitch * pitch).toFixed(1)}`);
      return ["flite", ["-voice", voice.name, ...settings, "-t", text, "-o", path]];
    }
    case "espeak":
      // 175 words a minute and pitch 50 (of 0 to 99) are espeak-ng's defaults.
      return ["espeak-ng", ["-v", voice.name, "-s", String(Math.round(175 / stretch)), "-p", String(Math.round(50 * pitch)), "-w", path, text]];
    case "rhvoice": // takes its text from stdin
      return ["RHVoice-test", ["-p", voice.name, "-r", String(Math.round(100 / stretch)), "-t", String(Math.round(100 * pitch)), "-o", path]];
    case "pico": {
      const marked = `<speed level="${Math.round(100 / stretch)}"><pitch level="${Math.round(100 * pitch)}">${text}</pitch></speed>`;
      return ["pico2wave", ["-l", voice.name, "-w", path, marked]];
    }
    default:
      throw new Error(`${voice.engine} has no command line`);
  }
}

/** One process for all takes, because Festival needs a second to start. */
async function sayByFestival(takes: readonly Take[], folder: string): Promise<void> {
  const lines = ["(define (say text file) (utt.save.wave (utt.synth (eval (list 'Utterance 'Text text))) file 'riff))"];
  let current = "";
  for (const { id, voice, text, stretch, pitch } of takes) {
    if (voice.name !== current) {
      lines.push(`(voice_${voice.name})`);
      if (voice.pitch === undefined) lines.push("(set! usual_params hts_engine_params)");
    }
    current = voice.name;
    if (voice.pitch === undefined) {
      lines.push(`(set! hts_engine_params (append usual_params '(("-r" ${(1 / stretch).toFixed(3)}))))`); // HTS voices take a rate
    } else {
      const deviation = (15 * pitch).toFixed(1); // 170 and 34: what the model of the pitch was trained with
      lines.push(`(set! int_lr_params '((target_f0_mean ${(voice.pitch * pitch).toFixed(1)}) (target_f0_std ${deviation}) (model_f0_mean 170) (model_f0_std 34)))`);
      lines.push(`(Parameter.set 'Duration_Stretch ${stretch.toFixed(3)})`);
    }
    lines.push(`(say ${JSON.stringify(text)} ${JSON.stringify(join(folder, `${id}.part.wav`))})`);
  }
  const script = join(folder, `${takes[0]?.id}.scm`);
  await writeFile(script, `${lines.join("\n")}\n`);
  await run(["festival", ["-b", script]]);
  await rm(script);
  for (const { id } of takes) await rename(join(folder, `${id}.part.wav`), join(folder, `${id}.wav`));
}

/** Runs a command to its end, with `input` as its standard input. Its output is shown only when it fails. */
function run([command, args]: readonly [string, readonly string[]], input = ""): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    child.stdin.on("error", () => undefined); // a command that does not read is no failure
    child.stdin.end(input);
    let output = "";
    const collect = (chunk: Buffer): void => {
      if (output.length < 2000) output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", (error) => reject(new Error(`${command}: ${error.message}`)));
    child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`${command} ${args.join(" ")} ended with ${code}: ${output.trim()}`))));
  });
}
