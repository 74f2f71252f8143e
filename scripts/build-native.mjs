#!/usr/bin/env node
// Builds the native addons into build/native with CMake. Needs cmake and a C++20 compiler; downloads nothing.
// usage: node scripts/build-native.mjs [--only torch|media] [--build-dir DIR] [--quiet]
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { findLibtorch, libtorchAdvice } from "./find-libtorch.mjs";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const option = (name) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
};
const only = option("--only");
const quiet = process.argv.includes("--quiet");
const buildDir = resolve(option("--build-dir") ?? join(root, "build", "native"));
const has = (command, ...args) => spawnSync(command, args, { stdio: "ignore" }).status === 0;

if (!has("cmake", "--version") || !has("c++", "--version")) {
  console.error("serac: building the native addons needs cmake and a C++20 compiler (Debian: apt-get install cmake g++)");
  process.exit(1);
}

const headers = join(dirname(createRequire(import.meta.url).resolve("node-api-headers/package.json")), "include");
const settings = [`-DNODE_API_INCLUDE=${headers}`];
const targets = [];

const torch = only === "media" ? undefined : findLibtorch();
if (torch) {
  console.error(`serac: libtorch ${torch.version} from ${torch.from}`);
  settings.push(
    `-DSERAC_TORCH_INCLUDE=${torch.include.join(";")}`,
    `-DSERAC_TORCH_LIBRARIES=${torch.libraries.join(";")}`,
    `-DSERAC_TORCH_RPATH=${torch.rpath.join(";")}`,
    `-DSERAC_TORCH_CXX11_ABI=${torch.cxx11Abi}`,
    `-DSERAC_TORCH_OPENMP_LINK=${torch.ownOpenmp ? "" : "-fopenmp"}`,
  );
  targets.push("serac_torch");
} else if (only !== "media") console.error(`serac: libtorch not found, so training and decoding will not work.\n${libtorchAdvice}`);

const mediaPackages = ["sndfile", "flac", "soxr", "sentencepiece", "kissfft-float"];
const missing = only === "torch" ? mediaPackages : mediaPackages.filter((name) => !has("pkg-config", "--exists", name));
if (missing.length === 0) {
  settings.push("-DSERAC_MEDIA=ON");
  targets.push("serac_media");
} else if (only !== "torch") {
  console.error(`serac: not found by pkg-config: ${missing.join(", ")}, so only WAV audio and no tokenizer will work.`);
  console.error("serac: Debian: apt-get install pkg-config libsndfile1-dev libflac-dev libsoxr-dev libsentencepiece-dev libkissfft-dev");
}
if (targets.length === 0) process.exit(1);

const work = join(buildDir, "cmake");
mkdirSync(work, { recursive: true });
takeTurn(join(work, "lock"));
forgetIfMoved(work);
const generator = has("ninja", "--version") && !existsSync(join(work, "Makefile")) ? ["-G", "Ninja"] : [];
const run = (args) => {
  const result = spawnSync("cmake", args, { stdio: ["ignore", quiet ? "ignore" : 2, 2] });
  if (result.status !== 0) process.exit(result.status ?? 1);
};
const linked = join(work, "linked");
run(["-S", join(root, "native"), "-B", work, ...generator, `-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=${linked}`, ...settings]);
run(["--build", work, "--parallel", String(Math.min(availableParallelism(), 4)), "--target", ...targets]);
for (const target of targets) {
  const [from, to] = [join(linked, `${target}.node`), join(buildDir, `${target}.node`)];
  if (existsSync(to) && statSync(to).mtimeMs >= statSync(from).mtimeMs) continue;
  copyFileSync(from, `${to}.new`); // renamed, so that a process which has the old one loaded keeps it
  renameSync(`${to}.new`, to);
}

/** CMake refuses a cache that was made for another folder: a copied or moved tree is built anew. */
function forgetIfMoved(folder) {
  const cache = join(folder, "CMakeCache.txt");
  const source = existsSync(cache) ? /^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$/m.exec(readFileSync(cache, "utf8"))?.[1] : undefined;
  if (source === undefined || source === join(root, "native")) return;
  for (const name of readdirSync(folder)) if (name !== "lock") rmSync(join(folder, name), { recursive: true, force: true });
}

/** Waits until no other build runs in this folder; the lock goes when this process ends. */
function takeTurn(lock) {
  for (let told = false; ; ) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" });
      process.on("exit", () => rmSync(lock, { force: true }));
      for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));
      return;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const owner = Number(existsSync(lock) ? readFileSync(lock, "utf8") : 0);
    if (owner > 0 && !alive(owner)) rmSync(lock, { force: true });
    else {
      if (!told) console.error("serac: waiting for another build in the same folder");
      told = true;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    }
  }
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
