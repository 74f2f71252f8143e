/** Element types of torch.save files: torch's names, their bytes, and the classes of storages that hold them. */

const widths: Readonly<Record<string, number>> = {
  float64: 8,
  float32: 4,
  float16: 2,
  bfloat16: 2,
  int64: 8,
  int32: 4,
  int16: 2,
  int8: 1,
  uint8: 1,
  bool: 1,
  uint16: 2,
  uint32: 4,
  uint64: 8,
  complex32: 4,
  complex64: 8,
  complex128: 16,
  float8_e4m3fn: 1,
  float8_e4m3fnuz: 1,
  float8_e5m2: 1,
  float8_e5m2fnuz: 1,
  float8_e8m0fnu: 1,
  qint8: 1,
  quint8: 1,
  qint32: 4,
};

/** Bytes of an element by torch's name of the dtype; undefined for those that are not known. */
export const elementBytes = (dtype: string): number | undefined => (Object.hasOwn(widths, dtype) ? widths[dtype] : undefined);

const dtypesOfStorages: Readonly<Record<string, string>> = {
  DoubleStorage: "float64",
  FloatStorage: "float32",
  HalfStorage: "float16",
  BFloat16Storage: "bfloat16",
  LongStorage: "int64",
  IntStorage: "int32",
  ShortStorage: "int16",
  CharStorage: "int8",
  ByteStorage: "uint8",
  BoolStorage: "bool",
  ComplexFloatStorage: "complex64",
  ComplexDoubleStorage: "complex128",
  QInt8Storage: "qint8",
  QUInt8Storage: "quint8",
  QInt32Storage: "qint32",
  UntypedStorage: "uint8",
  _UntypedStorage: "uint8",
};

/** The dtype of a class of storages; untyped ones hold bytes. */
export const storageDtype = (name: string): string | undefined => (Object.hasOwn(dtypesOfStorages, name) ? dtypesOfStorages[name] : undefined);

const classes = new Map(
  Object.entries(dtypesOfStorages)
    .filter(([name]) => !name.includes("Untyped"))
    .map(([name, dtype]) => [dtype, name]),
);

/** The class of storages of a dtype; undefined for dtypes that came after such classes. */
export const storageClass = (dtype: string): string | undefined => classes.get(dtype);

/** Bytes of the unit that a byte order applies to: half of an element for complex numbers. */
export function swapBytes(dtype: string): number {
  const bytes = elementBytes(dtype) ?? 1;
  return dtype.startsWith("complex") ? bytes / 2 : bytes;
}

/** The value of float16 bits. */
export function halfValue(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const scratch = new DataView(new ArrayBuffer(4));

/** The value of bfloat16 bits: the upper half of a float32. */
export function bfloat16Value(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

type Element = (view: DataView, at: number) => number | bigint;
const readers: Readonly<Record<string, Element>> = {
  float64: (view, at) => view.getFloat64(at, true),
  float32: (view, at) => view.getFloat32(at, true),
  float16: (view, at) => halfValue(view.getUint16(at, true)),
  bfloat16: (view, at) => bfloat16Value(view.getUint16(at, true)),
  int64: (view, at) => view.getBigInt64(at, true),
  uint64: (view, at) => view.getBigUint64(at, true),
  int32: (view, at) => view.getInt32(at, true),
  uint32: (view, at) => view.getUint32(at, true),
  int16: (view, at) => view.getInt16(at, true),
  uint16: (view, at) => view.getUint16(at, true),
  int8: (view, at) => view.getInt8(at),
  uint8: (view, at) => view.getUint8(at),
  bool: (view, at) => view.getUint8(at),
};

/** Reads one element of little-endian bytes as a number, or as a bigint where it has 64 bits; undefined for dtypes without real values here. */
export const elementReader = (dtype: string): Element | undefined => (Object.hasOwn(readers, dtype) ? readers[dtype] : undefined);
