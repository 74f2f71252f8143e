/** The architecture as a test: which folder may import which, and who touches the addons. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../src/util/paths.ts";

/** A layer imports from itself and from those before it. */
const layers = ["util", "formats", "torch", "audio", "text", "data", "nn", "models", "losses", "optim", "decode", "train", "cli"];
/** These work where libtorch is not installed. */
const withoutTorch = ["util", "formats", "audio", "text", "data"];

const source = join(packageRoot, "src");

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : /\.ts$/.test(name) ? [path] : [];
  });
}

const files = filesBelow(source).map((path) => ({
  path,
  name: relative(packageRoot, path),
  layer: relative(source, path).split("/")[0] as string,
  text: readFileSync(path, "utf8"),
}));

/** The files that a file imports, re-exports or loads later, and whether as a type only. */
function imports(path: string, text: string): { target: string; typeOnly: boolean }[] {
  const found: { target: string; typeOnly: boolean }[] = [];
  const pattern = /(?:^|\n)\s*(?:import|export)\b([^;"'()]*?)\bfrom\s*["']([^"']+)["']|(?:^|\n)\s*import\s*["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']/g;
  for (const [, names = "", from, bare, later] of text.matchAll(pattern)) {
    const target = from ?? bare ?? later ?? "";
    if (target.startsWith(".")) found.push({ target: resolve(dirname(path), target), typeOnly: /^\s*type\b/.test(names) });
  }
  return found;
}

describe("layers", () => {
  test("every folder of src is a layer", () => {
    expect(
      readdirSync(source)
        .filter((name) => name !== "index.ts")
        .every((name) => layers.includes(name)),
    ).toBe(true);
  });

  test("imports point to the same layer or one above it in the list", () => {
    const wrong: string[] = [];
    for (const { path, name, layer, text } of files) {
      if (layer === "index.ts") continue;
      for (const { target } of imports(path, text)) {
        const to = relative(source, target).split("/")[0] as string;
        if (to === "index.ts" || layers.indexOf(to) > layers.indexOf(layer)) wrong.push(`${name} imports ${relative(packageRoot, target)}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test("what must work without libtorch does not import it", () => {
    const wrong: string[] = [];
    for (const { path, name, layer, text } of files)
      if (withoutTorch.includes(layer)) for (const { target } of imports(path, text)) if (relative(source, target).startsWith("torch/")) wrong.push(name);
    expect(wrong).toEqual([]);
  });

  test("only src/torch loads the torch addon, only src/audio and src/text the media addon", () => {
    const loads = (addon: string) => [...new Set(files.filter(({ text }) => text.includes(`"${addon}"`)).map(({ layer }) => layer))];
    expect(loads("serac_torch.node")).toEqual(["torch"]);
    expect(loads("serac_media.node").filter((layer) => layer !== "audio" && layer !== "text")).toEqual([]);
    expect(loads("serac_media.node").length).toBeGreaterThan(0);
  });

  test("folders are made by makeFolder alone: Node's recursive mkdir never returns under /proc", () => {
    const calls = files.filter(({ text }) => /\bmkdir(Sync)?\(/.test(text)).map(({ name }) => name);
    expect(calls).toEqual([join("src", "formats", "atomic.ts")]);
  });

  test("imports of this package's files name their extension, and the checker sees what it should", () => {
    for (const { path, name, text } of files) for (const { target } of imports(path, text)) expect(target, name).toMatch(/\.ts$/);
    expect(
      imports("/a/b.ts", 'import type { X } from "../c/d.ts";\nexport * from "./e.ts";\nconst y = await import("../f.ts");').map(({ target, typeOnly }) => [target, typeOnly]),
    ).toEqual([
      ["/c/d.ts", true],
      ["/a/e.ts", false],
      ["/f.ts", false],
    ]);
  });
});
