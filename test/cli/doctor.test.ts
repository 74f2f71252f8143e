import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkBlas, checkIsaInUse, checkNode, doctor } from "../../src/cli/doctor.ts";
import { Output } from "../../src/cli/output.ts";
import { isas } from "../../src/torch/index.ts";
import { packageRoot } from "../../src/util/paths.ts";

describe("doctor", () => {
  test("a pthread OpenBLAS and the reference BLAS are warned of, an OpenMP one and MKL are not", () => {
    const openblas = (parallel: number) => [`/lib/libblas.so.3|OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH Zen MAX_THREADS=64 parallel=${parallel}`];
    expect(checkBlas(openblas(2), "")).toMatchObject({ state: "ok", found: "OpenBLAS 0.3.21, OpenMP" });
    expect(checkBlas(openblas(1), "")).toMatchObject({ state: "warning", fix: expect.stringContaining("libopenblas0-openmp") });
    expect(checkBlas(openblas(0), "").state).toBe("warning");
    expect(checkBlas(["/lib/libblas.so.3|"], "BLAS_INFO=generic")).toMatchObject({ state: "warning", found: expect.stringContaining("reference") });
    expect(checkBlas([], "BLAS_INFO=mkl").state).toBe("ok");
  });

  test("kernels that use less than the CPU has are warned of", () => {
    expect(checkIsaInUse("avx2", ["plain", "avx2"])).toMatchObject({ state: "ok", found: "avx2, the best of this CPU" });
    expect(checkIsaInUse("plain", ["plain", "avx2"])).toMatchObject({ state: "warning", found: expect.stringContaining("avx2"), fix: "unset SERAC_ISA" });
  });

  test("an old Node.js is a problem", () => {
    expect(checkNode("18.19.0")).toMatchObject({ state: "problem", fix: expect.any(String) });
    expect(checkNode("20.0.0").state).toBe("ok");
  });

  test("--json gives every finding, each that is not ok with its fix, and the exit code follows the problems", async () => {
    let printed = "";
    const parsed = doctor.parse(["--json"]);
    const out = new Output({ json: parsed.json, streams: { stdout: { write: (text) => (printed += text) }, stderr: { write: () => {} } } });
    const code = await parsed.run(out);
    const { ok, findings } = JSON.parse(printed) as { ok: boolean; findings: { name: string; state: string; found: string; fix?: string }[] };
    expect(code).toBe(ok ? 0 : 1);
    expect(ok).toBe(!findings.some(({ state }) => state === "problem"));
    expect(findings.map(({ name }) => name)).toEqual(expect.arrayContaining(["Node.js", "libtorch", "libsndfile", "libsoxr", "sentencepiece"]));
    for (const { state, found, fix } of findings) {
      expect(found).not.toBe("");
      if (state !== "ok") expect(fix).toBeTruthy();
    }
  });

  test("SERAC_ISA says which instructions kernels use; one that the CPU does not have is a problem", () => {
    const doctor = (isa: string): { status: number | null; finding: Record<string, unknown> | undefined } => {
      const { status, stdout } = spawnSync(process.execPath, [join(packageRoot, "bin", "serac"), "doctor", "--json"], {
        encoding: "utf8",
        env: { ...process.env, SERAC_ISA: isa },
      });
      const { findings } = JSON.parse(stdout) as { findings: Record<string, unknown>[] };
      return { status, finding: findings.find(({ name }) => name === "instructions") };
    };
    expect(doctor("plain").finding).toMatchObject({ details: { isa: "plain", available: isas() } });
    expect(doctor("sse9")).toMatchObject({ status: 1, finding: { state: "problem", found: expect.stringContaining('"sse9"'), fix: expect.stringContaining("set SERAC_ISA") } });
  });
});
