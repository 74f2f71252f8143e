/** Statistics of a tensor's elements along each of its axes, over any number of tensors. Source: icefall/diagnostics.py, TensorDiagnostic. */
import { callOperator, fromTypedArray, noGrad, scope, type Tensor } from "../torch/index.ts";
import { general } from "../util/printf.ts";

/** Kinds of statistics, in the order that they are printed. */
const kinds = ["abs", "max", "min", "positive", "value", "rms", "rms-sort", "eigs"] as const;
type Kind = (typeof kinds)[number] | "stddev";

interface Sum {
  values: Float64Array;
  shape: readonly number[];
  count: number;
}

/** Axes of at most so many elements are printed whole; icefall also prints 31 (a kernel) whole. */
const isSummarized = (size: number): boolean => size > 10 && size !== 31;

/** One kind of statistic of one axis. @param x (...), float64 */
function statOf(kind: Exclude<Kind, "stddev">, x: Tensor, axis: number): Tensor {
  const others = x.shape.map((_, i) => i).filter((i) => i !== axis);
  switch (kind) {
    case "rms-sort": {
      const rms = x
        .square()
        .mean([axis])
        .sqrt()
        .flatten()
        .toArray()
        .sort((a, b) => a - b);
      const at = Array.from({ length: 11 }, (_, i) => Math.min(rms.length - 1, Math.floor((i * rms.length) / 10)));
      return fromTypedArray(
        Float64Array.from(at, (i) => rms[i] as number),
        [11],
      );
    }
    case "eigs": {
      const rows = x.transpose(axis, -1).reshape([-1, x.size(axis)]);
      return rows.transpose(0, 1).matmul(rows);
    }
    case "max":
      return others.length > 0 ? x.amax(others) : x;
    case "min":
      return others.length > 0 ? x.amin(others) : x;
    default: {
      const y = kind === "abs" ? x.abs() : kind === "rms" ? x.square() : kind === "positive" ? x.gt(0).to({ dtype: "float64" }) : x;
      return others.length > 0 ? y.sum(others) : y;
    }
  }
}

/** What all tensors of one name were like. */
export class TensorStats {
  /** By axis and kind: a sum for every size that the axis had; null where eigenvalues would take too much memory. */
  private readonly axes: Map<Kind, Sum[] | null>[] = [];
  private readonly maxEigDim: number;

  /** @param maxEigDim the largest axis whose eigenvalues are computed */
  constructor({ maxEigDim = 512 }: { maxEigDim?: number } = {}) {
    this.maxEigDim = maxEigDim;
  }

  /** Takes a tensor in; an empty one is left out. */
  add(tensor: Tensor): void {
    if (tensor.numel === 0) return;
    noGrad(() =>
      scope(() => {
        const wide = tensor.detach().to({ dtype: "float64", device: "cpu" });
        const x = wide.shape.length === 0 ? wide.view([1]) : wide;
        x.shape.forEach((size, axis) => {
          const wanted = x.shape.length === 1 ? (["value", "abs", "max", "min"] as const) : kinds.filter((kind) => kind !== "eigs" || size <= this.maxEigDim);
          for (const kind of wanted) this.take(axis, kind, statOf(kind, x, axis), kind === "rms-sort" ? 1 : x.numel / size);
        });
      }),
    );
  }

  private take(axis: number, kind: Kind, stats: Tensor, count: number): void {
    this.axes[axis] ??= new Map();
    const ofAxis = this.axes[axis] as Map<Kind, Sum[] | null>;
    const sums = ofAxis.get(kind);
    if (sums === null) return;
    const values = stats.toTypedArray() as Float64Array;
    const same = sums?.find(({ shape }) => shape.join() === stats.shape.join());
    if (same) {
      same.count += count;
      for (let i = 0; i < values.length; i++) {
        const [a, b] = [same.values[i] as number, values[i] as number];
        same.values[i] = kind === "max" ? Math.max(a, b) : kind === "min" ? Math.min(a, b) : a + b;
      }
    } else if (sums && sums.length > 0 && kind === "eigs") ofAxis.set(kind, null);
    else ofAxis.set(kind, [...(sums ?? []), { values, shape: [...stats.shape], count }]);
  }

  /** Lines of icefall's form. @param head "module=NAME, type=CLASS," */
  lines(head: string): string[] {
    return this.axes.flatMap((ofAxis, axis) => {
      const all = new Map(ofAxis);
      const [rms, value] = [all.get("rms"), all.get("value")];
      if (rms && value && rms.length === value.length)
        all.set(
          "stddev",
          rms.map(({ values, ...rest }, i) => {
            const mean = value[i] as Sum;
            return { ...rest, values: values.map((square, k) => square - (mean.values[k] as number) ** 2 / (mean.count + 1e-20)) };
          }),
        );
      return Array.from(all).flatMap(([kind, sums]) => (sums ? [`${head} dim=${axis}, size=${sizesOf(sums)}, ${kind} ${describe(kind, sums)}`] : []));
    });
  }
}

function sizesOf(sums: readonly Sum[]): string {
  const sizes = sums.map(({ shape }) => shape[0] as number);
  return sizes.length === 1 ? String(sizes[0]) : `${Math.min(...sizes)}..${Math.max(...sizes)}`;
}

/** Roots of the eigenvalues' sizes, so that they compare with standard deviations. @param values a symmetric matrix, flat */
const rootEigenvalues = (values: Float64Array, size: number): Float64Array =>
  scope(() => (callOperator("aten::linalg_eigvalsh", [fromTypedArray(values, [size, size]), "L"]) as Tensor).abs().sqrt().toTypedArray() as Float64Array);

function describe(kind: Kind, sums: readonly Sum[]): string {
  const means = sums.map(({ values, count }) => (kind === "max" || kind === "min" ? values : values.map((value) => value / count)));
  let stats = Float64Array.from(means.flatMap((part) => Array.from(part)));
  if (kind === "eigs") stats = rootEigenvalues(stats, (sums[0] as Sum).shape[0] as number) as Float64Array<ArrayBuffer>;
  if (kind === "rms" || kind === "stddev") stats = stats.map(Math.sqrt);
  let text: string;
  if (sums.length > 1 || isSummarized(stats.length)) {
    stats.sort();
    const at = Array.from({ length: 11 }, (_, i) => stats[Math.floor((i * (stats.length - 1)) / 10)] as number);
    text = `percentiles: [${at.map((value) => general(value, 2)).join(" ")}]`;
  } else text = `[${Array.from(stats, (value) => general(value, 2)).join(" ")}]`;
  const square = stats.reduce((sum, value) => sum + value * value, 0);
  if (["value", "rms", "stddev", "eigs"].includes(kind)) text += `, norm=${general(Math.sqrt(square), 2)}`;
  return `${text}, mean=${general(stats.reduce((sum, value) => sum + value, 0) / stats.length, 3)}, rms=${general(Math.sqrt(square / stats.length), 3)}`;
}
