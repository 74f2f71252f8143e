import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe as describeValue, leavesOf, memoryTensor, PtTensor, parsePt, serializePt } from "../../src/formats/pt/index.ts";
import { ZipWriter } from "../../src/formats/pt/zip.ts";
import { damaged, fuzz } from "./fuzz.ts";

const golden = (name: string): Uint8Array => readFileSync(fileURLToPath(new URL(`../golden/pt/${name}.pt`, import.meta.url)));
const small = serializePt(
  new Map([
    ["w", memoryTensor("float32", [2, 3], new Uint8Array(24))],
    ["b", memoryTensor("int64", [], new Uint8Array(8))],
  ]),
);
const whole = fc.constantFrom(small, golden("unknown"), golden("state-dict"), golden("tensors"), golden("tensors-legacy"), golden("values-legacy"), golden("values-protocol4"));

/** A zip file around any pickle, with one storage of 16 bytes. */
function around(pickle: Uint8Array): Uint8Array {
  const parts: Uint8Array[] = [];
  const zip = new ZipWriter((part) => void parts.push(part));
  zip.add("archive/data.pkl", pickle.length, [pickle]);
  zip.add("archive/data/0", 16, [new Uint8Array(16)]);
  zip.finish();
  return Buffer.concat(parts);
}

const storage = "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ";
/** Pieces of pickles that chance alone hardly makes: marks, memo entries, calls of known names, tensors, numbers that claim anything. */
const piece = fc.oneof(
  fc.constantFrom(
    "(",
    ".",
    "0",
    "1",
    "2",
    "N",
    "]",
    "}",
    ")",
    "a",
    "e",
    "s",
    "u",
    "t",
    "l",
    "d",
    "R",
    "b",
    "Q",
    "o",
    "\x81",
    "\x85",
    "\x86",
    "\x87",
    "\x8f",
    "\x90",
    "\x91",
    "\x94",
  ),
  fc.constantFrom(
    "q\x00",
    "q\x01",
    "h\x00",
    "h\x01",
    "j\x00\x00\x00\x00",
    "r\xff\xff\xff\xff",
    "K\x01",
    "K\x00",
    "J\xff\xff\xff\xff",
    "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    "X\x01\x00\x00\x00a",
  ),
  fc.constantFrom(
    "ccollections\nOrderedDict\n",
    "c__builtin__\nset\n",
    "c__builtin__\ntuple\n",
    "c_codecs\nencode\n",
    "cargparse\nNamespace\n",
    "cpathlib\nPosixPath\n",
    "cnumpy\ndtype\n",
  ),
  fc.constantFrom(
    "ctorch._utils\n_rebuild_tensor_v2\n",
    "ctorch\nSize\n",
    "cos\nsystem\n",
    storage,
    `ctorch._utils\n_rebuild_tensor_v2\n(${storage}K\x00K\x02\x85K\x01\x85\x89NtR`,
  ),
  fc.uint8Array({ maxLength: 4 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);
const pickles = fc.array(piece, { maxLength: 40 }).map((pieces) => Buffer.from(`\x80\x02${pieces.join("")}.`, "latin1"));

function readAll(bytes: Uint8Array): void {
  const file = parsePt(bytes);
  for (const { path, value } of leavesOf(file)) {
    if (value instanceof PtTensor) {
      if (value.bytes().length !== value.byteLength) throw new Error(`${path} has other bytes than its shape promises`);
    } else if (describeValue(value, 100).length > 2000) throw new Error(`the description of ${path} is too long`);
  }
}

fuzz("pt: damaged files give values or a coded error", fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged(whole)), readAll);
fuzz("pt: any operations of a pickle give values or a coded error", fc.oneof(pickles, damaged(pickles)).map(around), readAll, { weight: 2 });
