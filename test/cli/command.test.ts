import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { command } from "../../src/cli/command.ts";
import { commands, main } from "../../src/cli/main.ts";
import { boolean, canonicalName, choice, flagOf, integer, integers, number, parseOptions, path, string, strings } from "../../src/cli/options.ts";
import { Output } from "../../src/cli/output.ts";
import { packageRoot } from "../../src/util/paths.ts";

const schema = {
  maxDuration: number({ default: 200, min: 0, unit: "seconds", help: "padded audio in a batch", group: "Data" }),
  expDir: path({ required: true, help: "where checkpoints go" }),
  useCtc: boolean({ default: false, help: "add the CTC head" }),
  context: choice(["one", "two"], { default: "two", help: "kind of context" }),
  numEncoderLayers: integers({ default: [2, 2, 3], min: 1, help: "layers of each stack" }),
  seed: integer({ help: "seed" }),
  names: strings({ help: "names" }),
  note: string({ short: "n", default: "", help: "a note" }),
};

function collect() {
  const text = { stdout: "", stderr: "" };
  const stream = (name: "stdout" | "stderr") => ({ write: (part: string) => (text[name] += part) });
  return { text, streams: { stdout: stream("stdout"), stderr: stream("stderr") } };
}

let seen: Record<string, unknown> = {};
const sample = command({
  name: "sample",
  summary: "Take options",
  examples: ["serac sample --exp-dir exp a.wav"],
  positional: { audio: { help: "audio files", many: true, optional: true } },
  options: schema,
  run(values) {
    expectTypeOf(values.maxDuration).toEqualTypeOf<number>();
    expectTypeOf(values.expDir).toEqualTypeOf<string>();
    expectTypeOf(values.seed).toEqualTypeOf<number | undefined>();
    expectTypeOf(values.context).toEqualTypeOf<"one" | "two">();
    expectTypeOf(values.numEncoderLayers).toEqualTypeOf<readonly number[]>();
    expectTypeOf(values.audio).toEqualTypeOf<string[]>();
    seen = values;
  },
});

async function run(...args: string[]): Promise<Record<string, unknown>> {
  const { streams } = collect();
  const parsed = sample.parse(args);
  await parsed.run(new Output({ streams, json: parsed.json }));
  return seen;
}

describe("flags", () => {
  test("defaults, dashes, underscores and equals signs", async () => {
    expect(await run("--exp-dir", "exp")).toEqual({
      maxDuration: 200,
      expDir: "exp",
      useCtc: false,
      context: "two",
      numEncoderLayers: [2, 2, 3],
      seed: undefined,
      names: undefined,
      note: "",
      audio: [],
    });
    expect(await run("--exp_dir=e", "--max_duration", "1e2", "--num-encoder-layers", "1,2", "-n", "x", "--names=a,b")).toMatchObject({
      expDir: "e",
      maxDuration: 100,
      numEncoderLayers: [1, 2],
      note: "x",
      names: ["a", "b"],
    });
  });

  test("a boolean takes icefall's words, or stands alone, and never swallows an argument", async () => {
    for (const [args, value] of [
      [["--use-ctc", "1"], true],
      [["--use-ctc", "yes"], true],
      [["--use_ctc", "False"], false],
      [["--use-ctc=0"], false],
      [["--use-ctc"], true],
      [["--no-use-ctc"], false],
    ] as const)
      expect((await run("--exp-dir", "e", ...args))["useCtc"]).toBe(value);
    expect(await run("--exp-dir", "e", "--use-ctc", "a.wav", "b.wav")).toMatchObject({ useCtc: true, audio: ["a.wav", "b.wav"] });
  });

  test("values may begin with a dash, and nothing behind -- is a flag", async () => {
    expect(await run("--exp-dir", "e", "--seed", "-5", "--", "--use-ctc")).toMatchObject({ seed: -5, useCtc: false, audio: ["--use-ctc"] });
  });

  test("the last of two wins", async () => {
    expect((await run("--exp-dir", "e", "--seed", "1", "--seed", "2"))["seed"]).toBe(2);
  });

  test("what is wrong is named, with what is accepted", async () => {
    const failure = (...args: string[]) =>
      run(...args).then(
        () => "nothing",
        (error: Error) => error.message,
      );
    expect(await failure("--exp-dir", "e", "--max-durations", "3")).toMatch(/unknown option --max-durations \[CONFIG_UNKNOWN_OPTION\]. Did you mean --max-duration\?/);
    expect(await failure("--exp-dir", "e", "--max_duraton", "3")).toContain("Did you mean --max-duration?");
    expect(await failure("--exp-dir", "e", "--max-duration", "-3")).toContain('--max-duration is "-3", expected a number of 0 or more [CONFIG_BAD_VALUE]');
    expect(await failure("--exp-dir", "e", "--max-duration", "3s")).toContain("expected a number");
    expect(await failure("--exp-dir", "e", "--max-duration")).toContain("--max-duration");
    expect(await failure("--exp-dir", "e", "--seed", "1.5")).toContain("a whole number");
    expect(await failure("--exp-dir", "e", "--use-ctc=maybe")).toContain('--use-ctc is "maybe", expected 1, true, yes or 0, false, no');
    expect(await failure("--exp-dir", "e", "--context", "three")).toContain("one of one, two");
    expect(await failure("--exp-dir", "e", "--num-encoder-layers", "2,,3")).toContain("--num-encoder-layers");
    expect(await failure("--exp-dir", "")).toContain("expected a path");
    expect(await failure()).toContain("--exp-dir is missing");
  });
});

describe("the same schema for the API", () => {
  test("checks plain objects, in any spelling", () => {
    expect(parseOptions(schema, { expDir: "e", numEncoderLayers: [1], useCtc: 1 })).toMatchObject({ expDir: "e", numEncoderLayers: [1], useCtc: true, maxDuration: 200 });
    expect(parseOptions(schema, { "exp-dir": "e", max_duration: 5, seed: undefined })).toMatchObject({ expDir: "e", maxDuration: 5 });
    expect(() => parseOptions(schema, { expDir: "e", maxDuration: Number.NaN })).toThrow("maxDuration is null, expected a number");
    expect(() => parseOptions(schema, { expDir: "e", maxDurations: 1 })).toThrow("Did you mean maxDuration?");
    expect(() => parseOptions(schema, { expDir: "e", toString: 1 })).toThrow("CONFIG_UNKNOWN_OPTION");
    expect(() => parseOptions(schema, { expDir: "e", useCtc: "constructor" })).toThrow("CONFIG_BAD_VALUE");
  });

  test("names survive the way to a flag and back", () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*$/),
        (name) => canonicalName(flagOf(name)) === name && canonicalName(flagOf(name).replaceAll("-", "_").replace("__", "--")) === name,
      ),
    );
  });

  test("whole numbers round-trip through text", () => {
    const { read } = integers({ help: "" });
    fc.assert(fc.property(fc.array(fc.maxSafeInteger(), { minLength: 1 }), (list) => JSON.stringify(read(list.join(","))) === JSON.stringify(list.map((x) => x + 0))));
  });
});

describe("the program", () => {
  test("help lists every command and ends a command's own with its examples", async () => {
    const { text, streams } = collect();
    expect(await main(["--help"], streams)).toBe(0);
    for (const name of Object.keys(commands)) expect(text.stdout).toContain(name);
    const help = sample.help();
    expect(help).toContain("--max-duration <seconds>");
    expect(help).toContain("(default: 200)");
    expect(help).toContain("Data:");
    expect(help.trimEnd().endsWith("serac sample --exp-dir exp a.wav")).toBe(true);
  });

  test("every command's help has an example, and every option of it a help text", async () => {
    for (const [name, { load, summary }] of Object.entries(commands)) {
      const loaded = await load();
      expect(loaded.name).toBe(name);
      expect(loaded.summary).toBe(summary);
      expect(loaded.help()).toMatch(/Examples:\n {2}serac /);
      for (const one of Object.values(loaded.options)) expect(one.help.length).toBeGreaterThan(5);
    }
  });

  test("a wrong command line exits with 2 and says what was meant, without a stack", async () => {
    for (const args of [["doctr"], ["doctor", "--jsn"], ["doctor", "extra"], ["--frobnicate"]]) {
      const { text, streams } = collect();
      expect(await main(args, streams)).toBe(2);
      expect(text.stderr).toMatch(/^serac: .*\n$/);
      expect(text.stdout).toBe("");
    }
  });

  test("--version is package.json's", async () => {
    const { text, streams } = collect();
    expect(await main(["--version"], streams)).toBe(0);
    expect(text.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("neither the program nor any command's help loads an addon", () => {
    const script = `const { main, commands } = await import("./build/js/cli/main.js");
      const quiet = { stdout: { write() {} }, stderr: { write() {} } };
      await main(["--help"], quiet);
      for (const name of Object.keys(commands)) await main([...name.split(" "), "--help"], quiet);
      const maps = (await import("node:fs")).readFileSync("/proc/self/maps", "utf8");
      console.log(/libtorch|serac_(torch|media)\\.node/.test(maps) ? "loaded" : "not loaded");`;
    expect(execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: packageRoot, encoding: "utf8" })).toBe("not loaded\n");
  });
});
