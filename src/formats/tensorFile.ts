/** Files of named tensors, whichever format they are in: .pt of torch.save, or safetensors. Tensors are read when they are asked for. */
import { FormatError } from "../util/errors.ts";
import { levelsKey } from "./levels.ts";
import { leavesOf, looksLikePt, openPt, type PtFile, type PtStorage, PtTensor, type PtValue } from "./pt/index.ts";
import { openSafetensors, type SafeDtype } from "./safetensors.ts";

/** A tensor of a file. */
export interface FileTensor {
  readonly name: string;
  /** torch's name of the element type. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Where rows do not follow one another. */
  readonly strides?: readonly number[];
  /** Shared by tensors whose elements are the same ones in the file. */
  readonly storage?: PtStorage;
  readonly size: number;
  readonly byteLength: number;
  /** Row by row, little endian. */
  bytes(): Uint8Array<ArrayBuffer>;
}

/** An open file; the caller closes it. */
export interface TensorFile {
  readonly at: string;
  readonly format: "pt" | "pt-legacy" | "safetensors";
  readonly tensors: readonly FileTensor[];
  /** What is no tensor: values of a .pt file, metadata of a safetensors file (but for the note of levels). */
  readonly values: readonly { path: string; value: PtValue }[];
  /** The open .pt file. */
  readonly pt?: PtFile;
  /** Metadata of a safetensors file. */
  readonly metadata: Readonly<Record<string, string>>;
  close(): void;
}

const torchNames: Readonly<Record<SafeDtype, string>> = {
  F64: "float64",
  F32: "float32",
  F16: "float16",
  BF16: "bfloat16",
  I64: "int64",
  I32: "int32",
  I16: "int16",
  I8: "int8",
  U64: "uint64",
  U32: "uint32",
  U16: "uint16",
  U8: "uint8",
  BOOL: "bool",
  F8_E4M3: "float8_e4m3fn",
  F8_E5M2: "float8_e5m2",
};
const safeNames = new Map(Object.entries(torchNames).map(([safe, name]) => [name, safe as SafeDtype]));

/** torch's name of a dtype of safetensors files. */
export const torchDtype = (dtype: SafeDtype): string => torchNames[dtype];

/** The name of a dtype in safetensors files; undefined for those that they cannot hold. */
export const safeDtype = (dtype: string): SafeDtype | undefined => safeNames.get(dtype);

function ofPt(path: string): TensorFile {
  const pt = openPt(path);
  try {
    const leaves = leavesOf(pt);
    const tensors: FileTensor[] = [];
    const values: { path: string; value: PtValue }[] = [];
    for (const { path, value } of leaves) {
      if (!(value instanceof PtTensor)) values.push({ path, value });
      else {
        const { dtype, shape, strides, storage, size, byteLength } = value;
        tensors.push({ name: path, dtype, shape, ...(value.contiguous ? {} : { strides }), storage, size, byteLength, bytes: () => value.bytes() });
      }
    }
    return { at: path, format: pt.form === "zip" ? "pt" : "pt-legacy", tensors, values, pt, metadata: {}, close: () => pt.close() };
  } catch (error) {
    pt.close();
    throw error;
  }
}

function ofSafetensors(path: string): TensorFile {
  const { tensors, metadata, close } = openSafetensors(path);
  return {
    at: path,
    format: "safetensors",
    tensors: tensors.map(({ name, dtype, shape, byteLength, bytes }) => ({
      name,
      dtype: torchNames[dtype],
      shape,
      size: shape.reduce((a, b) => a * b, 1),
      byteLength,
      bytes,
    })),
    values: Object.entries(metadata).flatMap(([key, value]) => (key === levelsKey ? [] : [{ path: `__metadata__.${key}`, value }])),
    metadata,
    close,
  };
}

const ptNames = /\.(pt|pth|ckpt|bin)$/i;

/** What a file to be written is, by its name; undefined for names that tell nothing. */
export const formatOfName = (path: string): "pt" | "safetensors" | undefined => (ptNames.test(path) ? "pt" : /\.safetensors$/i.test(path) ? "safetensors" : undefined);

/**
 * Opens a file. What it is, its first bytes tell; where they do not, its name.
 * @throws FormatError of the format that it seems to be in
 */
export const openTensorFile = (path: string): TensorFile => (looksLikePt(path) || ptNames.test(path) ? ofPt(path) : ofSafetensors(path));

/**
 * Refuses a file whose tensors are many times larger than it is, because they repeat the same elements: to read them all would not end.
 * @throws FormatError PT_TOO_LARGE
 */
export function refuseExpansion({ at, tensors, pt }: TensorFile): void {
  if (!pt) return;
  const bytes = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  if (bytes > 16 * pt.size + (64 << 20)) throw new FormatError("PT_TOO_LARGE", { at, message: `its tensors repeat the elements of a file of ${pt.size} bytes to ${bytes}` });
}
