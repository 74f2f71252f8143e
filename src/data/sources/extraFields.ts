/**
 * Values for utterances from files of text beside their manifest: NeMo's extra_fields. "text_iter" gives the first utterance the first line, and so on;
 * "text_sample" gives each a line at random, the same one each time. Source: NeMo, nemo_adapters.py.
 */
import { readFileSync } from "node:fs";
import { fileError } from "../../formats/atomic.ts";
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { hashText } from "../../util/hash.ts";
import { showValue } from "../../util/options.ts";
import { type ConfigNode, isListNode, isMapNode, plainConfig } from "./configTree.ts";

/** A field that is added to the custom values of cuts. */
export interface ExtraField {
  name: string;
  /** True where the order of the utterances matters. */
  inOrder: boolean;
  /** @param line the number of the utterance's line in its manifest, from 1 */
  value(line: number, id: string): string;
}

const types = ["text_iter", "text_sample"];

/** Reads the config's list, and the files. @throws ConfigError CONFIG_BAD_VALUE at file:line; FormatError of reading; ManifestError SOURCE_EMPTY */
export function readExtraFields(node: ConfigNode): ExtraField[] {
  const refuse = ({ at, path }: ConfigNode, message: string, fix?: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { at, message: `${path} ${message}`, fix });
  };
  if (!isListNode(node)) return refuse(node, `is ${showValue(plainConfig(node)).slice(0, 40)}, expected a list of fields`);
  return node.value.map((item): ExtraField => {
    const { type, name, path } = isMapNode(item) ? (plainConfig(item) as Record<string, unknown>) : {};
    if (!types.includes(String(type))) return refuse(item, `has the type ${showValue(type)}, expected ${types.join(" or ")}`);
    if (typeof name !== "string" || name === "" || typeof path !== "string" || path === "")
      return refuse(item, "lacks its name or path", "write {type: text_iter, name: question, path: questions.txt}");
    let text: string;
    try {
      text = readFileSync(path, "utf8");
    } catch (error) {
      throw fileError(path, "read", error);
    }
    const lines = text
      .replace(/\n$/, "")
      .split(/\r?\n/)
      .map((line) => line.trim());
    if (text === "") throw new ManifestError("SOURCE_EMPTY", { at: path, message: "the file has no line", fix: "give a file with a line for each utterance" });
    const inOrder = type === "text_iter";
    return {
      name,
      inOrder,
      value: (line, id) => {
        if (!inOrder) return lines[hashText(`${name}\n${id}`).low % lines.length] as string;
        const found = lines[line - 1];
        if (found === undefined)
          throw new ManifestError("SOURCE_EMPTY", {
            at: path,
            message: `the file has ${lines.length} lines, and the manifest has more: there is none for line ${line}`,
            fix: "give a line for each utterance, or use the type text_sample",
          });
        return found;
      },
    };
  });
}
