/** `serac doctor`: what serac found on this machine, and how to mend what is missing. */
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { ConfigError, SeracError } from "../util/errors.ts";
import { command } from "./command.ts";

/** One thing looked at. */
export interface Finding {
  name: string;
  /** "problem": training cannot run. "warning": it can, but slower or with less. */
  state: "ok" | "warning" | "problem";
  /** What was found, in one line. */
  found: string;
  /** What to do about a problem or warning. */
  fix?: string;
  details?: Record<string, unknown>;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).split("\n").join(" ");
/** Without the code and the remedy. */
const wordsOf = (error: unknown): string => messageOf(error).replace(/ \[[A-Z_]+\].*$/, "");

/** @param version as process.versions.node */
export function checkNode(version: string): Finding {
  const ok = Number(version.split(".")[0]) >= 20;
  return { name: "Node.js", state: ok ? "ok" : "problem", found: version, ...(ok ? {} : { fix: "install Node.js 20 or newer" }), details: { version } };
}

/**
 * Says how matrix products run.
 * @param blas "path|description" for each BLAS in the process, as the torch addon lists them
 * @param config libtorch's build settings: a wheel brings MKL or its own OpenBLAS, which then is not among the loaded ones
 */
export function checkBlas(blas: readonly string[], config: string): Finding {
  const name = "BLAS";
  const install = "apt-get install libopenblas0-openmp (and remove libopenblas0-pthread, or choose with: update-alternatives --config libblas.so.3-x86_64-linux-gnu)";
  const details = { loaded: blas };
  const described = blas.find((line) => line.includes("OpenBLAS"))?.split("|")[1];
  if (described !== undefined) {
    const version = /OpenBLAS \S+/.exec(described)?.[0] ?? "OpenBLAS";
    const threading = { "0": "one thread only", "1": "pthread", "2": "OpenMP" }[/parallel=(\d)/.exec(described)?.[1] ?? ""] ?? "unknown threading";
    const found = `${version}, ${threading}`;
    if (threading !== "pthread" && threading !== "one thread only") return { name, state: "ok", found, details };
    const why = threading === "pthread" ? "its threads ignore --threads and fight libtorch's" : "matrix products use one thread";
    return { name, state: "warning", found: `${found}: ${why}`, fix: install, details };
  }
  if (blas.some((line) => /mkl/i.test(line)) || /BLAS_INFO=mkl|Math Kernel Library/.test(config)) return { name, state: "ok", found: "MKL", details };
  return { name, state: "warning", found: "the reference BLAS: matrix products are many times slower than they could be", fix: install, details };
}

/**
 * Says which instructions serac's own kernels use.
 * @param isa the set in use
 * @param available what the CPU has, the best last
 */
export function checkIsaInUse(isa: string, available: readonly string[]): Finding {
  const name = "instructions";
  const details = { isa, available };
  if (isa === available.at(-1)) return { name, state: "ok", found: `${isa}, the best of this CPU`, details };
  return { name, state: "warning", found: `${isa}, while this CPU has ${available.at(-1)}: serac's kernels are slower than they could be`, fix: "unset SERAC_ISA", details };
}

async function checkLibtorch(): Promise<Finding[]> {
  try {
    const { describeLibtorch, isas, zeros, scope } = await import("../torch/index.ts");
    scope(() => zeros([1]).add(1).item());
    const { version, path, threads, isa, cuda, blas, config } = describeLibtorch();
    return [
      { name: "libtorch", state: "ok", found: `${version} from ${path}`, details: { version, path } },
      checkBlas(blas, config),
      checkIsaInUse(isa, isas()),
      { name: "threads", state: "ok", found: `${threads} of ${availableParallelism()} cores`, details: { threads, cores: availableParallelism() } },
      { name: "CUDA", state: "ok", found: cuda ? "yes" : "no: training and decoding run on the CPU", details: { available: cuda } },
    ];
  } catch (error) {
    if (error instanceof ConfigError) return [{ name: "instructions", state: "problem", found: wordsOf(error), fix: error.fix ?? "unset SERAC_ISA" }];
    const fix =
      "apt-get install libtorch-dev libopenblas0-openmp cmake g++, or set SERAC_LIBTORCH to an unpacked libtorch; then: npm run setup (installed from npm: npm rebuild serac)";
    return [{ name: "libtorch", state: "problem", found: wordsOf(error), fix }];
  }
}

/** The version of a library by pkg-config: only where its development package is installed. */
function packageVersion(name: string): string | undefined {
  const result = spawnSync("pkg-config", ["--modversion", name], { encoding: "utf8" });
  return result.status === 0 ? result.stdout.trim() : undefined;
}

async function checkMedia(): Promise<Finding[]> {
  const libraries = [
    { name: "libsndfile", pkg: "sndfile", debian: "libsndfile1-dev", use: "reads FLAC, Ogg, Opus, MP3 and WAV" },
    { name: "libsoxr", pkg: "soxr", debian: "libsoxr-dev", use: "resamples for transcription" },
    { name: "sentencepiece", pkg: "sentencepiece", debian: "libsentencepiece-dev", use: "splits texts into units" },
  ];
  let failure: string | undefined;
  try {
    const { media } = await import("../audio/media.ts");
    media();
  } catch (error) {
    failure = error instanceof SeracError && error.cause instanceof Error ? messageOf(error.cause.message.split("\n")[0]) : messageOf(error);
  }
  const build = "npm run setup (installed from npm: npm rebuild serac)";
  return libraries.map(({ name, pkg, debian, use }) => {
    const version = packageVersion(pkg);
    const details = { version: version ?? null };
    if (failure === undefined) return { name, state: "ok", found: `${version ?? "loaded"}, ${use}`, details };
    if (version === undefined)
      return { name, state: "problem", found: `not found by pkg-config; it ${use}`, fix: `apt-get install pkg-config ${debian} libkissfft-dev; then: ${build}`, details };
    return { name, state: "problem", found: `${version} is there, but the media addon does not load: ${failure}`, fix: `run: ${build}`, details };
  });
}

/** Looks at everything. */
export async function examine(): Promise<Finding[]> {
  return [checkNode(process.versions.node), ...(await checkLibtorch()), ...(await checkMedia())];
}

export const doctor = command({
  name: "doctor",
  summary: "Say what serac found on this machine, and how to mend what is missing",
  description: "Exits with 1 where training could not run.",
  examples: ["serac doctor", "serac doctor --json"],
  options: {},
  async run(_, out) {
    const findings = await examine();
    const problems = findings.filter(({ state }) => state === "problem").length;
    if (out.json) out.print(JSON.stringify({ ok: problems === 0, findings }, null, 2));
    else {
      const width = Math.max(...findings.map(({ name }) => name.length));
      for (const { name, state, found, fix } of findings) {
        out.print(`${{ ok: "ok     ", warning: "warning", problem: "PROBLEM" }[state]}  ${name.padEnd(width)}  ${found}`);
        if (fix !== undefined) out.print(`         ${" ".repeat(width)}  fix: ${fix}`);
      }
    }
    out.say(problems === 0 ? "Training can run here." : "Training cannot run here yet.");
    return problems === 0 ? 0 : 1;
  },
});
