import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
// @ts-expect-error a script without types
import { errorPage } from "../../scripts/generate-error-docs.mjs";
import { commands } from "../../src/cli/main.ts";
import { flagOf } from "../../src/cli/options.ts";
import { errorCodes } from "../../src/util/errorCodes.ts";
import { packageRoot } from "../../src/util/paths.ts";

const read = (path: string): string => readFileSync(join(packageRoot, path), "utf8");

function filesBelow(folder: string): string[] {
  return readdirSync(join(packageRoot, folder)).flatMap((name) => {
    const path = join(folder, name);
    return statSync(join(packageRoot, path)).isDirectory() ? filesBelow(path) : [path];
  });
}

describe("docs/errors.md", () => {
  test("is what the registry gives: else run node scripts/generate-error-docs.mjs", () => {
    expect(read("docs/errors.md")).toBe((errorPage as (codes: Record<string, string>) => string)(errorCodes));
  });

  test("every code has a paragraph, and is thrown somewhere", () => {
    const code = [...filesBelow("src"), ...filesBelow("native")]
      .filter((path) => /\.(ts|cc|h)$/.test(path) && !path.endsWith("errorCodes.ts"))
      .map(read)
      .join("\n");
    for (const [name, text] of Object.entries(errorCodes)) {
      expect(text.length, name).toBeGreaterThan(30);
      expect(text, name).toMatch(/\.$/);
      expect(code.includes(`"${name}"`) || code.includes(name), `${name} is thrown nowhere`).toBe(true);
    }
  });
});

describe("COMPATIBILITY.md", () => {
  const rows = read("COMPATIBILITY.md")
    .split("\n")
    .filter((line) => /^\| `/.test(line))
    .map(
      (line) =>
        line
          .split("|")
          .map((cell) => cell.trim())
          .slice(1, -1) as [string, string, string],
    );

  test("every row says works, differs or missing", () => {
    expect(rows.length).toBeGreaterThan(150);
    for (const [name, state] of rows) expect(["works", "differs", "missing"], name).toContain(state);
    const names = rows.map(([name]) => name);
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });

  test("every row that works names a test that exists; every one that differs says why", () => {
    for (const [name, state, note] of rows) {
      if (state === "differs") expect(note.length, name).toBeGreaterThan(10);
      if (state !== "works") continue;
      const [, path, title] = /^(test\/[\w/.-]+\.test\.ts): (.+)$/.exec(note) ?? [];
      expect(path, `${name} names no test`).toBeDefined();
      expect(existsSync(join(packageRoot, path as string)), `${name}: ${path}`).toBe(true);
      expect(read(path as string).includes(`"${title}"`), `${name}: no test "${title}" in ${path}`).toBe(true);
    }
  });

  test("a flag that a command has is not listed as missing", async () => {
    for (const [name, { load }] of Object.entries(commands)) {
      const flags = new Set(Object.keys((await load()).options).map((option) => `\`${name} ${flagOf(option)}\``));
      for (const [row, state] of rows) if (state === "missing") expect(flags.has(row), `${row} is there`).toBe(false);
    }
  });
});

describe("the documents", () => {
  const ofUsers = readdirSync(join(packageRoot, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`);
  const documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "COMPATIBILITY.md", ...ofUsers];

  test("exist, and their links within the repository lead somewhere", () => {
    for (const document of documents)
      for (const [, target] of read(document).matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g))
        expect(existsSync(join(packageRoot, dirname(document), target as string)), `${document}: ${target}`).toBe(true);
  });

  test("commands that they show parse", async () => {
    let shown = 0;
    for (const document of ["README.md", ...ofUsers])
      for (const [, line] of read(document).matchAll(/^(?:\$ |npx )?serac ([^\n#]+)$/gm)) {
        const words = Array.from((line as string).split(/ (?:[|>&]|2>)/)[0]?.matchAll(/'([^']*)'|(\S+)/g) ?? [], ([word, quoted]) => quoted ?? word).filter(
          (word) => !/^(\.\.\.|\\)$/.test(word),
        );
        const name = [`${words[0]} ${words[1]}`, words[0] as string].find((one) => Object.hasOwn(commands, one));
        expect(name, `${document}: ${line}`).toBeDefined();
        const command = await commands[name as string]?.load();
        const used = words.slice((name as string).split(" ").length);
        expect(() => command?.parse(used), `${document}: serac ${line}`).not.toThrow();
        shown++;
      }
    expect(shown).toBeGreaterThan(60);
  });
});
