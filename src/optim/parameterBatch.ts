/** Parameters of one shape, updated together. */
import { callOperator, keep, noGrad, scope, stack, type Tensor, zerosLike } from "../torch/index.ts";

/** What ScaledAdam remembers of a batch of n parameters; tensors are stacked over the batch. */
export interface BatchState {
  /** (n, ...shape) running mean of squared gradients. */
  expAvgSq: Tensor;
  /** (n, ...shape) running mean of the updates. */
  delta: Tensor;
  /** Absent for scalars. */
  scale: ScaleState | undefined;
}

/** What is remembered for changing the size of whole tensors. */
export interface ScaleState {
  /** (n, 1, ...) root mean square of every parameter, as of the last update of sizes. */
  paramRms: Tensor;
  /** (period, n, 1, ...) gradients with respect to a factor on the parameter, of the last steps. */
  scaleGrads: Tensor;
  /** (n, 1, ...) running mean of their squares. */
  scaleExpAvgSq: Tensor;
}

/** Elements that are updated together on a CPU: few enough for its caches, where the passes over them stay. */
const sliceElements = 65_536;

/** Neighbouring parameters of a batch that are updated together: few large ones or many small ones. On other devices it is all of the batch. */
export class ParameterSlice {
  readonly parameters: readonly Tensor[];
  /** (m, ...shape); the parameters are views of it. */
  readonly values: Tensor;
  /** Of these m parameters: views of the batch's state, which comes with the first step. */
  state: BatchState | undefined;
  private readonly first: number;

  constructor(parameters: readonly Tensor[], first: number, batchValues: Tensor) {
    this.parameters = parameters;
    this.first = first;
    this.values = keep(batchValues.narrow(0, first, parameters.length));
  }

  /** (m, ...shape) the gradients, 0 where there is none. A view of the gradient where m = 1: not to be changed. */
  gradients(): Tensor {
    const grads = this.parameters.map((p) => p.grad ?? zerosLike(p));
    return grads.length === 1 ? (grads[0] as Tensor).contiguous().unsqueeze(0) : stack(grads);
  }

  /** (m) sum of a * b over every parameter, of two tensors (m, ...shape). */
  dot(a: Tensor, b: Tensor): Tensor {
    const m = this.parameters.length;
    return a
      .reshape([m, 1, -1])
      .bmm(b.reshape([m, -1, 1]))
      .view([m]);
  }

  /** (m, 1, ...): a tensor (m) in the form that broadcasts over the parameters. */
  perItem(t: Tensor): Tensor {
    return t.view([this.parameters.length, ...this.values.shape.slice(1).map(() => 1)]);
  }

  /** (m, 1, ...) root mean square of every parameter. */
  rms(): Tensor {
    const itemSize = this.values.numel / this.parameters.length;
    return this.perItem(this.dot(this.values, this.values).div(itemSize).sqrt());
  }

  /** Takes this slice's part of the batch's state. */
  share(state: BatchState | undefined): void {
    for (const t of tensorsOf(this.state)) t.dispose();
    const part = (t: Tensor, dim = 0): Tensor => keep(t.narrow(dim, this.first, this.parameters.length));
    this.state = state && {
      expAvgSq: part(state.expAvgSq),
      delta: part(state.delta),
      scale: state.scale && { paramRms: part(state.scale.paramRms), scaleGrads: part(state.scale.scaleGrads, 1), scaleExpAvgSq: part(state.scale.scaleExpAvgSq) },
    };
  }
}

/** Parameters of one shape and dtype. Their values and state live in one tensor each, as checkpoints have them. */
export class ParameterBatch {
  /** Their positions in the optimiser's list. */
  readonly indices: readonly number[];
  readonly slices: readonly ParameterSlice[];
  /** (n, ...shape); the parameters are views of it. */
  readonly values: Tensor;
  /** True for parameters of a single element. */
  readonly isScalar: boolean;
  private current: BatchState | undefined;

  constructor(indices: readonly number[], parameters: readonly Tensor[]) {
    this.indices = indices;
    const itemSize = (parameters[0] as Tensor).numel;
    this.isScalar = itemSize === 1;
    const { values, slices } = noGrad(() =>
      scope(() => {
        const all = keep(stack(parameters.map((p) => p.detach())));
        parameters.forEach((p, i) => {
          callOperator("aten::set_data", [p, all.select(0, i)]);
          p.forget();
        });
        const perSlice = all.device === "cpu" ? Math.max(1, Math.floor(sliceElements / Math.max(1, itemSize))) : parameters.length;
        const starts = Array.from({ length: Math.ceil(parameters.length / perSlice) }, (_, i) => i * perSlice);
        return { values: all, slices: starts.map((start) => new ParameterSlice(parameters.slice(start, start + perSlice), start, all)) };
      }),
    );
    this.values = values;
    this.slices = slices;
  }

  /** Absent before the first step. */
  get state(): BatchState | undefined {
    return this.current;
  }
  /** Frees the state before. */
  set state(state: BatchState | undefined) {
    for (const slice of this.slices) slice.share(state);
    for (const t of tensorsOf(this.current)) t.dispose();
    this.current = state;
  }

  /** Frees everything; the parameters stay. */
  dispose(): void {
    this.state = undefined;
    for (const slice of this.slices) slice.values.dispose();
    this.values.dispose();
  }
}

function tensorsOf(state: BatchState | undefined): Tensor[] {
  if (!state) return [];
  const { expAvgSq, delta, scale } = state;
  return [expAvgSq, delta, ...(scale ? [scale.paramRms, scale.scaleGrads, scale.scaleExpAvgSq] : [])];
}

/** One batch for every shape and dtype, in the order of icefall: by dtype, then by shape, dimension after dimension. */
export function batchParameters(parameters: readonly Tensor[]): ParameterBatch[] {
  const groups = new Map<string, { dtype: string; shape: readonly number[]; indices: number[] }>();
  parameters.forEach((p, i) => {
    const key = `${p.dtype} ${p.shape.join()}`;
    const group = groups.get(key);
    if (group) group.indices.push(i);
    else groups.set(key, { dtype: p.dtype, shape: p.shape, indices: [i] });
  });
  return [...groups.values()]
    .sort((a, b) => (a.dtype === b.dtype ? compareShapes(a.shape, b.shape) : a.dtype < b.dtype ? -1 : 1))
    .map(
      ({ indices }) =>
        new ParameterBatch(
          indices,
          indices.map((i) => parameters[i] as Tensor),
        ),
    );
}

function compareShapes(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i] !== b[i]) return (a[i] as number) - (b[i] as number);
  }
  return a.length - b.length;
}
