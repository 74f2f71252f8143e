/**
 * Configurations with the place of every value, so that errors give file:line: YAML files, objects of the API, and overrides as
 * `train_ds.batch_duration=300`. YAML is 1.2, so that `lang: no` stays a text; ${a.b} and ${oc.env:NAME} are filled in as OmegaConf does.
 */
import { readFileSync } from "node:fs";
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";
import { fileError } from "../../formats/atomic.ts";
import { ConfigError } from "../../util/errors.ts";

export type ConfigScalar = string | number | boolean | null;

/** A value and where it stands. */
export interface ConfigNode {
  value: ConfigScalar | ConfigNode[] | Map<string, ConfigNode>;
  /** "train.yaml:12", or what else it comes from. */
  at: string;
  /** Keys from the top: "train_ds.input_cfg[0].weight"; "" is the top. */
  path: string;
}

export const isMapNode = (node: ConfigNode | undefined): node is ConfigNode & { value: Map<string, ConfigNode> } => node?.value instanceof Map;
export const isListNode = (node: ConfigNode | undefined): node is ConfigNode & { value: ConfigNode[] } => Array.isArray(node?.value);

const joined = (path: string, key: string): string => (path === "" ? key : `${path}.${key}`);

/** The same as plain JavaScript. */
export function plainConfig({ value }: ConfigNode): unknown {
  if (Array.isArray(value)) return value.map(plainConfig);
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, node]) => [key, plainConfig(node)]));
  return value;
}

/** A node of plain JavaScript, as the API gives it. */
export function configNode(value: unknown, at: string, path = ""): ConfigNode {
  if (Array.isArray(value)) return { value: value.map((item, i) => configNode(item, at, `${path}[${i}]`)), at, path };
  if (typeof value === "object" && value !== null)
    return {
      value: new Map(
        Object.entries(value)
          .filter(([, item]) => item !== undefined)
          .map(([key, item]) => [key, configNode(item, at, joined(path, key))]),
      ),
      at,
      path,
    };
  if (value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean") return { value, at, path };
  throw new ConfigError("CONFIG_BAD_VALUE", { at, message: `${path} is a ${typeof value}, which a configuration cannot hold` });
}

/**
 * Reads a YAML file.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE; ConfigError CONFIG_BAD_YAML at file:line:column
 */
export function readConfig(file: string): ConfigNode {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw fileError(file, "read", error);
  }
  return fillIn(parseConfig(text, file));
}

/** Parses YAML. @param file the name that places give */
export function parseConfig(text: string, file: string): ConfigNode {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false });
  const [error] = document.errors;
  if (error) {
    const { line, col } = lines.linePos(error.pos[0]);
    throw new ConfigError("CONFIG_BAD_YAML", { at: `${file}:${line}:${col}`, message: error.message.split("\n")[0] as string });
  }
  return convert(document.contents, document, lines, file, file, "");
}

function convert(node: unknown, document: Document, lines: LineCounter, file: string, above: string, path: string): ConfigNode {
  const range = (node as Node | null)?.range;
  const at = range ? `${file}:${lines.linePos(range[0]).line}` : above;
  if (isAlias(node)) return convert(node.resolve(document), document, lines, file, at, path);
  if (isSeq(node)) return { value: node.items.map((item, i) => convert(item, document, lines, file, at, `${path}[${i}]`)), at, path };
  if (isMap(node)) {
    const value = new Map<string, ConfigNode>();
    for (const { key, value: item } of node.items) {
      const raw: unknown = isScalar(key) ? key.value : key;
      const name = typeof raw === "symbol" ? "<<" : String(raw); // the parser marks merges
      const keyRange = (key as Node | null)?.range;
      const keyAt = keyRange ? `${file}:${lines.linePos(keyRange[0]).line}` : at;
      const child = convert(item, document, lines, file, keyAt, joined(path, name));
      if (name !== "<<") value.set(name, { ...child, at: keyAt });
      else
        for (const merged of isListNode(child) ? child.value : [child])
          if (isMapNode(merged)) for (const [other, one] of merged.value) if (!value.has(other)) value.set(other, one);
    }
    return { value, at, path };
  }
  const value = isScalar(node) ? node.value : null;
  return { value: value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : String(value), at, path };
}

/** The node at a path of keys and indices, or undefined. */
export function nodeAt(root: ConfigNode, path: string): ConfigNode | undefined {
  let node: ConfigNode | undefined = root;
  for (const key of keysOf(path)) {
    if (isMapNode(node)) node = node.value.get(key);
    else if (isListNode(node) && /^\d+$/.test(key)) node = node.value[Number(key)];
    else return undefined;
  }
  return node;
}

const keysOf = (path: string): string[] => path.split(/[.[\]]+/).filter((key) => key !== "");

/** Puts values in the place of ${...}. */
function fillIn(root: ConfigNode): ConfigNode {
  const fill = (node: ConfigNode, depth: number): ConfigNode => {
    const { value } = node;
    if (Array.isArray(value)) return { ...node, value: value.map((item) => fill(item, depth)) };
    if (value instanceof Map) return { ...node, value: new Map([...value].map(([key, item]) => [key, fill(item, depth)])) };
    if (typeof value !== "string" || !value.includes("${")) return node;
    if (depth > 20) throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: `${node.path}: ${value} leads back to itself` });
    const only = /^\$\{([^{}]+)\}$/.exec(value)?.[1];
    if (only !== undefined) return { ...fill(lookUp(node, only), depth + 1), at: node.at, path: node.path };
    return {
      ...node,
      value: value.replace(/\$\{([^{}]+)\}/g, (_, inside: string) => {
        const { value: text } = fill(lookUp(node, inside), depth + 1);
        return typeof text === "object" ? "" : String(text);
      }),
    };
  };
  const lookUp = ({ at, path }: ConfigNode, inside: string): ConfigNode => {
    const missing = (fix: string): never => {
      throw new ConfigError("CONFIG_BAD_VALUE", { at, message: `${path}: there is nothing to put for \${${inside}}`, fix });
    };
    const [, name, initial] = /^oc\.env:([^,]+)(?:,(.*))?$/.exec(inside) ?? [];
    if (name !== undefined) {
      const found = process.env[name.trim()] ?? initial?.trim();
      return found === undefined ? missing(`set the environment variable ${name.trim()}`) : { value: found, at, path };
    }
    return nodeAt(root, inside) ?? missing("write the value itself, or give the file that holds it");
  };
  return fill(root, 0);
}

/**
 * Applies overrides: `key.key=value` with the value as YAML writes it; `~key` takes a key away, `+key=value` is the same as `key=value`.
 * @throws ConfigError CONFIG_BAD_VALUE where a path leads through what is no map or list
 */
export function overrideConfig(root: ConfigNode, overrides: readonly string[]): ConfigNode {
  let result = root;
  for (const override of overrides) {
    const [, removes, path, text] = /^(~?)\+{0,2}([\w.[\]-]+)(?:=(.*))?$/s.exec(override) ?? [];
    if (path === undefined || (text === undefined) !== (removes === "~"))
      throw new ConfigError("CONFIG_BAD_VALUE", { at: "command line", message: `"${override}" is no override`, fix: "write KEY=VALUE, for instance train_ds.batch_duration=300" });
    const value = text === undefined ? undefined : { ...parseConfig(text, "command line"), at: `command line, ${override}` };
    result = put(result, keysOf(path), value, override);
  }
  return result;
}

function put(node: ConfigNode, [key, ...rest]: readonly string[], value: ConfigNode | undefined, override: string): ConfigNode {
  if (key === undefined) return value === undefined ? node : { ...value, path: node.path };
  if (isListNode(node) && /^\d+$/.test(key) && Number(key) < node.value.length) {
    const items = [...node.value];
    if (value === undefined && rest.length === 0) items.splice(Number(key), 1);
    else items[Number(key)] = put(items[Number(key)] as ConfigNode, rest, value, override);
    return { ...node, value: items };
  }
  if (!isMapNode(node))
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: "command line",
      message: `${override}: ${node.path === "" ? "the file" : node.path} has no "${key}"`,
      fix: "check the path of the override",
    });
  const items = new Map(node.value);
  const path = joined(node.path, key);
  if (value === undefined && rest.length === 0) items.delete(key);
  else items.set(key, put(items.get(key) ?? { value: new Map(), at: "command line", path }, rest, value, override));
  return { ...node, value: items };
}
