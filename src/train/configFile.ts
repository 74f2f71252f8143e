/** `--config`: a YAML file of a command's options. */
import { isMapNode, plainConfig, readConfig } from "../data/index.ts";
import { ConfigError, placed } from "../util/errors.ts";
import { canonicalName, type Schema, unknownOption } from "../util/options.ts";

/** @returns the options that have a value, in one spelling */
export const givenNames = (input: Readonly<Record<string, unknown>>): ReadonlySet<string> =>
  new Set(Object.entries(input).flatMap(([name, value]) => (value === undefined ? [] : [canonicalName(name)])));

/**
 * What is given, and beside it what the file that `config` names gives.
 * @throws ConfigError CONFIG_UNKNOWN_OPTION, CONFIG_BAD_VALUE at file:line; FormatError where the file cannot be read
 */
export function withConfig(input: Readonly<Record<string, unknown>>, schema: Schema): Record<string, unknown> {
  const { config: file, ...given } = input;
  if (typeof file !== "string") return { ...input };
  const node = readConfig(file);
  if (!isMapNode(node)) throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: "the file holds no options", fix: "write them as NAME: VALUE, a line each" });
  const names = new Map(Object.keys(schema).map((name) => [canonicalName(name), name]));
  const values: Record<string, unknown> = {};
  for (const [key, value] of node.value) {
    const name = names.get(canonicalName(key));
    const option = name === undefined ? undefined : schema[name];
    if (name === undefined || name === "config" || option === undefined) {
      throw placed(unknownOption(key, Object.keys(schema)), value.at);
    }
    const plain = plainConfig(value);
    if (plain === null) continue; // as if it were not there
    if (option.read(plain) === undefined) throw new ConfigError("CONFIG_BAD_VALUE", { at: value.at, message: `${key} is ${JSON.stringify(plain)}, expected ${option.accepts}` });
    values[name] = plain;
  }
  const spelled = Object.fromEntries(Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[names.get(canonicalName(name)) ?? name, value]])));
  return { ...values, ...spelled, config: file };
}
