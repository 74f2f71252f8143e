import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../src/util/paths.ts";

interface Manifest {
  name: string;
  type: string;
  license: string;
  bin: Record<string, string>;
  exports: Record<string, string | { types: string; default: string }>;
  files: string[];
  scripts: Record<string, string>;
}
const manifest = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as Manifest;
const layers = readdirSync(join(packageRoot, "src")).filter(
  (name) => statSync(join(packageRoot, "src", name)).isDirectory() && existsSync(join(packageRoot, "src", name, "index.ts")),
);

describe("the package", () => {
  test("is ESM under Apache-2.0 with its licence beside it", () => {
    expect(manifest).toMatchObject({ name: "serac", type: "module", license: "Apache-2.0" });
    expect(readFileSync(join(packageRoot, "LICENSE"), "utf8")).toContain("Apache License");
  });

  test("has an entry of its own for every layer, each loads, and none loads libtorch by being imported", () => {
    expect(layers.length).toBeGreaterThan(5);
    const entries = ["serac", ...layers.map((layer) => `serac/${layer}`)];
    const script = `for (const entry of ${JSON.stringify(entries)}) if (Object.keys(await import(entry)).length === 0) console.log("empty", entry);
      const maps = (await import("node:fs")).readFileSync("/proc/self/maps", "utf8");
      console.log(/libtorch_cpu/.test(maps) ? "loaded" : "not loaded");`;
    expect(execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: packageRoot, encoding: "utf8" })).toBe("not loaded\n");
    for (const layer of layers) expect(existsSync(join(packageRoot, "build", "js", layer, "index.d.ts")), layer).toBe(true);
  });

  test("what scripts and files name exists", () => {
    for (const command of Object.values(manifest.scripts)) {
      const script = /scripts\/[\w.-]+/.exec(command)?.[0];
      if (script) expect(existsSync(join(packageRoot, script)), script).toBe(true);
    }
    for (const file of manifest.files) expect(existsSync(join(packageRoot, file)), file).toBe(true);
  });

  test("bin/serac runs through a link from elsewhere", () => {
    const folder = mkdtempSync(join(tmpdir(), "serac-"));
    try {
      const link = join(folder, "serac");
      symlinkSync(join(packageRoot, manifest.bin["serac"] as string), link);
      expect(execFileSync(link, ["--help"], { cwd: folder, encoding: "utf8" })).toContain("Usage: serac");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

test("what npm packs holds the program, its native sources and the install hook, and not the tests", () => {
  const [{ files }] = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: packageRoot, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
  ) as [{ files: { path: string }[] }];
  const paths = files.map(({ path }) => path);
  for (const path of [
    "bin/serac",
    "build/js/index.js",
    "build/js/index.d.ts",
    "build/js/cli/main.js",
    "native/CMakeLists.txt",
    "scripts/install.mjs",
    "scripts/build-native.mjs",
    "scripts/find-libtorch.mjs",
    "LICENSE",
  ])
    expect(paths).toContain(path);
  expect(paths.filter((path) => /^(test|src|demo|bench|build\/native)\//.test(path))).toEqual([]);
});
