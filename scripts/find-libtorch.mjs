// Finds libtorch: SERAC_LIBTORCH or LIBTORCH, else the system's, else the installed Python torch.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const libtorchAdvice = `Three ways to get it:
  1. Debian: apt-get install libtorch-dev libopenblas0-openmp
  2. set SERAC_LIBTORCH to an unpacked libtorch (the folder that holds include/ and lib/)
  3. install PyTorch for Python: pip install torch (python3 must be on PATH)`;

function versionOf(include) {
  for (const file of [join(include, "torch/csrc/api/include/torch/version.h"), join(include, "torch/version.h"), join(include, "torch/headeronly/version.h")]) {
    if (!existsSync(file)) continue;
    const text = readFileSync(file, "utf8");
    const part = (name) => new RegExp(`#define TORCH_VERSION_${name} (\\d+)`).exec(text)?.[1];
    if (part("MAJOR")) return [part("MAJOR"), part("MINOR"), part("PATCH")].join(".");
  }
  return "unknown";
}

function describe(from, include, lib, cxx11Abi) {
  if (!existsSync(join(include, "ATen/ATen.h")) || !existsSync(join(lib, "libtorch_cpu.so"))) return undefined;
  // libtorch.so itself only pulls in the others, also the CUDA part that SERAC_LIBTORCH_CPU leaves out
  const parts = process.env.SERAC_LIBTORCH_CPU ? ["torch_cpu", "c10"] : ["torch_cpu", "c10", "torch_cuda", "c10_cuda"];
  const names = parts.map((name) => join(lib, `lib${name}.so`)).filter((path) => existsSync(path));
  const ownOpenmp = readdirSync(lib).find((name) => /^libgomp.*\.so/.test(name)); // PyPI's wheel brings its own: one OpenMP in a process
  if (ownOpenmp) names.push(join(lib, ownOpenmp));
  return {
    from,
    version: versionOf(include),
    include: [include, join(include, "torch/csrc/api/include")].filter((path) => existsSync(path)),
    libraries: names,
    // Debian keeps every BLAS beside the one that update-alternatives chose; pthread OpenBLAS ignores the number of threads.
    rpath: [join(lib, "openblas-openmp"), lib].filter((path) => existsSync(path)),
    cxx11Abi,
    ownOpenmp: Boolean(ownOpenmp),
  };
}

/** @returns where libtorch is and how to link it, or undefined */
export function findLibtorch() {
  for (const name of ["SERAC_LIBTORCH", "LIBTORCH"]) {
    const folder = process.env[name];
    if (!folder) continue;
    const wheel = existsSync(join(folder, "_C")) || existsSync(join(folder, "__init__.py"));
    const found = describe(`${name}=${folder}`, join(folder, "include"), join(folder, "lib"), abiOfBuild(folder, wheel));
    if (!found) throw new Error(`serac: ${name}=${folder} does not hold include/ATen and lib/libtorch_cpu.so`);
    return found;
  }
  for (const lib of ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"]) {
    const found = describe(`the system (${lib})`, lib.startsWith("/usr/local") ? "/usr/local/include" : "/usr/include", lib, 1);
    if (found) return found;
  }
  const python = spawnSync("python3", ["-c", "import torch,os;print(os.path.dirname(torch.__file__));print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"], { encoding: "utf8" });
  if (python.status === 0) {
    const [folder, abi] = python.stdout.trim().split("\n");
    return describe(`Python's torch (${folder})`, join(folder, "include"), join(folder, "lib"), Number(abi));
  }
  return undefined;
}

// 2.x wheels say their ABI in version-dependent places; libstdc++'s mangling in the library itself is the truth.
function abiOfBuild(folder) {
  const nm = spawnSync("sh", ["-c", `nm -D --defined-only '${join(folder, "lib", "libc10.so")}' | grep -c __cxx11`], { encoding: "utf8" });
  return Number(nm.stdout) > 0 ? 1 : 0;
}
