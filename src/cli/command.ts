/** A command of the command line: one schema gives its parsing, its help and the types of its values. */
import { Argument, Command as Commander, CommanderError, Option as CommanderOption } from "commander";
import { ConfigError } from "../util/errors.ts";
import { boolean, canonicalName, flagOf, type Option, type Options, parseOptions, readBoolean, type Schema, unknownOption } from "../util/options.ts";
import type { Output } from "./output.ts";

/** An argument without a flag. */
export interface Positional {
  help: string;
  /** True where it may be left out. */
  optional?: boolean;
  /** True for the last one where it takes all the rest: its value is a list. */
  many?: boolean;
}

type PositionalValue<P> = P extends { many: true } ? string[] : P extends { optional: true } ? string | undefined : string;
type Positionals = Record<string, Positional>;

/** What `run` gets: options and positional arguments by name. */
export type CommandValues<S extends Schema, P extends Positionals> = Options<S> & { [K in keyof P]: PositionalValue<P[K]> };

export interface CommandSpec<S extends Schema, P extends Positionals> {
  /** As it is typed after `serac`: "decode", "bpe train". */
  name: string;
  /** One line for the list of commands. */
  summary: string;
  /** More lines for the command's own help. */
  description?: string;
  /** Whole command lines; they end the help. */
  examples: readonly string[];
  positional?: P;
  options: S;
  /** True where options may also be written as NAME=VALUE, as Hydra's users write them; only for commands without positional arguments. */
  overrides?: boolean;
  /**
   * @param given names of the options that were given, not left to their defaults
   * @returns the exit code; nothing means 0
   */
  run(values: CommandValues<S, P>, out: Output, given: ReadonlySet<string>): Promise<number | void> | number | void;
}

/** A command as the command line uses it, whatever its schema. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly options: Schema;
  help(): string;
  /** @throws ConfigError for what the command line got wrong */
  parse(args: readonly string[]): ParsedCommand;
}

export interface ParsedCommand {
  /** The help was asked for: print it, run nothing. */
  help: boolean;
  json: boolean;
  values: Record<string, unknown>;
  run(out: Output): Promise<number>;
}

/** Options that every command has. */
const common = { json: boolean({ default: false, help: "print data as JSON", group: "General" }) } satisfies Schema;

function describe({ help, default: initial, choices, required }: Option<unknown>): string {
  const notes: string[] = [];
  if (choices) notes.push(choices.join(", "));
  if (required) notes.push("required");
  else if (initial !== undefined) notes.push(`default: ${Array.isArray(initial) ? initial.join(",") : initial === "" ? '""' : String(initial)}`);
  return notes.length === 0 ? help : `${help} (${notes.join("; ")})`;
}

const placeholders = {
  string: "text",
  path: "path",
  integer: "n",
  number: "x",
  boolean: "bool",
  choice: "word",
  integers: "n,n,...",
  numbers: "x,x,...",
  strings: "text,...",
} as const;

function build<S extends Schema, P extends Positionals>(spec: CommandSpec<S, P>, schema: Schema): Commander {
  const commander = new Commander(`serac ${spec.name}`)
    .description([spec.summary, ...(spec.description ? [spec.description] : [])].join("\n\n"))
    .helpOption("-h, --help", "show this help")
    .exitOverride()
    .configureOutput({ writeErr: () => {}, writeOut: () => {} })
    .configureHelp({ helpWidth: 120 })
    .addHelpText("after", ["", "Examples:", ...spec.examples.map((example) => `  ${example}`)].join("\n"));
  for (const [name, { help, optional, many }] of Object.entries(spec.positional ?? {})) {
    const dashed = flagOf(name).slice(2);
    commander.addArgument(new Argument(optional ? `[${dashed}${many ? "..." : ""}]` : `<${dashed}${many ? "..." : ""}>`, help));
  }
  for (const [name, one] of Object.entries(schema)) {
    const placeholder = one.unit ?? placeholders[one.kind];
    const value = one.kind === "boolean" ? `[${placeholder}]` : `<${placeholder}>`;
    const option = new CommanderOption(`${one.short ? `-${one.short}, ` : ""}${flagOf(name)} ${value}`, describe(one));
    if (one.hidden) option.hideHelp();
    commander.addOption(option.helpGroup(`${one.group ?? "Options"}:`));
  }
  return commander;
}

/**
 * Brings flags to one spelling before they are parsed: underscores to dashes, and the truth value of a boolean behind an equals sign,
 * because `--flag 1` takes a value and `--flag file` does not. With `overrides`, what is written as NAME=VALUE becomes a flag.
 */
function normalize(args: readonly string[], schema: Schema, overrides: boolean): string[] {
  const byName = new Map(Object.entries(schema).map(([name, one]) => [canonicalName(name), { flag: flagOf(name), boolean: one.kind === "boolean" }]));
  const byShort = new Map<string, { flag: string; boolean: boolean }>();
  for (const [name, one] of Object.entries(schema)) if (one.short) byShort.set(`-${one.short}`, { flag: flagOf(name), boolean: one.kind === "boolean" });
  const result: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const [, name, value] = (overrides && /^(\w+)=(.*)$/s.exec(args[i] as string)) || [];
    const arg = name === undefined ? (args[i] as string) : `--${name}=${(value as string).replace(/^(["'])(.*)\1$/s, "$2")}`;
    if (arg === "--") return [...result, ...args.slice(i)];
    if (!arg.startsWith("-")) {
      result.push(arg);
      continue;
    }
    const equals = arg.indexOf("=");
    const written = equals < 0 ? arg : arg.slice(0, equals);
    const negated = written.startsWith("--no-") || written.startsWith("--no_") ? byName.get(canonicalName(written.slice(5))) : undefined;
    const known = written.startsWith("--") ? byName.get(canonicalName(written)) : byShort.get(written);
    if (known === undefined) result.push(negated?.boolean && equals < 0 ? `${negated.flag}=false` : arg);
    else if (equals >= 0) result.push(known.flag + arg.slice(equals));
    else if (!known.boolean) {
      result.push(known.flag);
      if (i + 1 < args.length) result.push(args[++i] as string); // a value may begin with a dash
    } else if (readBoolean(args[i + 1]) !== undefined) result.push(`${known.flag}=${args[++i]}`);
    else result.push(`${known.flag}=true`);
  }
  return result;
}

/** @returns the error of a user for what commander found */
function translate(error: CommanderError, name: string, schema: Schema): ConfigError {
  const bad = (message: string) => new ConfigError("CONFIG_BAD_VALUE", { message, fix: `for all options: serac ${name} --help` });
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? "";
  if (error.code === "commander.unknownOption") return unknownOption(quoted.split("=")[0] as string, [...Object.keys(schema).map(flagOf), "--help"]);
  const flag = /--[\w-]+/.exec(quoted)?.[0];
  const accepts = flag === undefined ? undefined : schema[canonicalName(flag)]?.accepts;
  if (error.code === "commander.optionMissingArgument" && flag) return bad(`${flag} has no value, expected ${accepts}`);
  if (error.code === "commander.missingArgument") return bad(`missing argument <${quoted}>`);
  return bad(error.message.replace(/^error: /, ""));
}

/** Declares a command. */
export function command<const S extends Schema, const P extends Positionals = Record<never, never>>(spec: CommandSpec<S, P>): Command {
  const schema: Schema = { ...spec.options, ...common };
  return {
    name: spec.name,
    summary: spec.summary,
    options: spec.options,
    help() {
      let text = "";
      build(spec, schema)
        .configureOutput({ writeOut: (part) => (text += part) })
        .outputHelp();
      return text;
    },
    parse(args) {
      const commander = build(spec, schema);
      try {
        commander.parse(normalize(args, schema, spec.overrides === true), { from: "user" });
      } catch (error) {
        if (!(error instanceof CommanderError)) throw error;
        if (error.code === "commander.helpDisplayed") return { help: true, json: false, values: {}, run: async () => 0 };
        throw translate(error, spec.name, schema);
      }
      const given = new Set(Object.entries(commander.opts()).flatMap(([name, value]) => (value === undefined ? [] : [name])));
      const { json, ...values } = parseOptions(schema, commander.opts(), flagOf) as Record<string, unknown>;
      for (const [i, name] of Object.keys(spec.positional ?? {}).entries()) values[name] = commander.processedArgs[i];
      return { help: false, json: json === true, values, run: async (out) => (await spec.run(values as CommandValues<S, P>, out, given)) ?? 0 };
    },
  };
}
