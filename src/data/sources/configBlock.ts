/** Where the keys of a dataset stand: in a block of a whole config, at its top, in a list of sources, or in overrides alone. */
import { ConfigError } from "../../util/errors.ts";
import { type ConfigNode, configNode, isListNode, nodeAt, overrideConfig, readConfig } from "./configTree.ts";

/** The usual places of the block of a kind: train_ds, model.train_ds, data.train_ds. */
const above = ["", "model.", "data."];
const sourceKeys = ["input_cfg", "manifest_filepath", "cuts_path", "shar_path", "multi_config"];

/** Names of the blocks of training and of validation data, NeMo's first. */
export const blockNames = { train: ["train_ds", "training_ds"], validation: ["validation_ds", "valid_ds"] } as const;

/** How to find a block. */
export interface BlockOptions {
  /** Names that it may have. */
  names: readonly string[];
  /** KEY=VALUE: from the top of the file, or of the block. */
  overrides?: readonly string[];
  /** Its path, where it has none of the usual ones. */
  section?: string | undefined;
}

/** A block of a config. */
export interface ConfigBlock {
  block: ConfigNode;
  /** Its path; "" is the top. */
  section: string;
}

/** The first name of an override's path: "train_ds" of "train_ds.batch_duration=300". */
const firstKey = (override: string): string => override.replace(/^[~+]+/, "").split(/[=.[]/)[0] as string;

/**
 * Finds the block of a file's data and applies overrides to it.
 * @param config a YAML file, or what one would hold; a list is an input_cfg
 * @throws ConfigError CONFIG_BAD_VALUE where there is none, CONFIG_BAD_YAML; FormatError of reading
 */
export function configBlock(config: string | ConfigNode, { names, overrides = [], section }: BlockOptions): ConfigBlock {
  const read = typeof config === "string" ? readConfig(config) : config;
  const at = typeof config === "string" ? config : read.at;
  const top = isListNode(read) ? { ...read, value: new Map([["input_cfg", { ...read, path: "input_cfg" }]]) } : read;
  const places = names.flatMap((name) => above.map((prefix) => prefix + name));
  const candidates = section === undefined ? ["", ...places] : [section];
  const namesData = (path: string): boolean => sourceKeys.some((key) => nodeAt(top, path === "" ? key : `${path}.${key}`) !== undefined);
  // A block whose data comes from an override names none itself.
  const found =
    section ?? candidates.find(namesData) ?? places.find((path) => nodeAt(top, path) !== undefined) ?? places.find((path) => overrides.some((one) => isBelow(one, path)));
  if (found === undefined)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at,
      message: `no block that names data (${sourceKeys.join(", ")}) at the top or at ${places.join(", ")}`,
      fix: `put its keys into ${names[0]}, or say where they are (serac data inspect --section model.my_ds)`,
    });
  const root = overrideConfig(
    top,
    overrides.map((one) => fromTop(one, top, { section: found, names })),
  );
  const block = found === "" ? root : nodeAt(root, found);
  if (!block) throw new ConfigError("CONFIG_BAD_VALUE", { at, message: `there is no block ${found}` });
  return { block, section: found };
}

/** True for overrides of what is below a path. */
const isBelow = (override: string, path: string): boolean => override.replace(/^[~+]+/, "").startsWith(`${path}.`);

/** An override as it is written from the top of the file: `batch_duration=3`, `train_ds.batch_duration=3` and `model.train_ds.batch_duration=3` mean the block wherever it stands. */
function fromTop(override: string, top: ConfigNode, { section, names }: { section: string; names: readonly string[] }): string {
  const [, signs = "", path = ""] = /^([~+]*)(.*)$/s.exec(override) ?? [];
  if (section !== "" && isBelow(path, section)) return override;
  const below = section === "" ? "" : `${section}.`;
  const elsewhere = names.flatMap((one) => above.slice(1).map((prefix) => prefix + one)).filter((one) => nodeAt(top, one) === undefined);
  const name = [...names, ...elsewhere].find((one) => isBelow(path, one));
  if (name !== undefined) return `${signs}${below}${path.slice(name.length + 1)}`;
  return nodeAt(top, firstKey(path)) === undefined ? `${signs}${below}${path}` : override;
}

/** A config that overrides alone make. */
export const emptyConfig = (): ConfigNode => configNode({}, "command line");
