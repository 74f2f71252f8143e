/** Parameters of one shape, updated together. */
import { callOperator, keep, noGrad, scope, stack, type Tensor, zerosLike } from "../torch/index.ts";

/** What ScaledAdam remembers of a batch of n parameters; tensors are stacked over the batch. */
export interface BatchState {
  /** (n, ...shape) running mean of squared gradients. */
  expAvgSq: Tensor;
  /** (n, ...shape) running mean of the updates. */
  delta: Tensor;
}

/** What is remembered for changing the size of a batch's parameters as a whole. */
export interface ScaleState {
  /** (n, 1, ...) root mean square of every parameter, as of the last update of sizes. */
  paramRms: Tensor;
  /** (period, n, 1, ...) gradients with respect to a factor on the parameter, of the last steps. */
  scaleGrads: Tensor;
  /** (n, 1, ...) running mean of their squares. */
  scaleExpAvgSq: Tensor;
}

/** Parameters of one shape and dtype. Their values and state live in one tensor each, as checkpoints have them. */
export class ParameterBatch {
  /** Their positions in the optimiser's list. */
  readonly indices: readonly number[];
  readonly parameters: readonly Tensor[];
  /** (n, ...shape); the parameters are views of it. */
  readonly values: Tensor;
  /** Elements of one parameter. */
  readonly itemSize: number;
  private current: BatchState | undefined;

  constructor(indices: readonly number[], parameters: readonly Tensor[]) {
    this.indices = indices;
    this.parameters = parameters;
    this.itemSize = (parameters[0] as Tensor).numel;
    this.values = noGrad(() => scope(() => keep(stack(parameters.map((p) => p.detach())))));
    parameters.forEach((p, i) => {
      scope(() => callOperator("aten::set_data", [p, this.values.select(0, i)]));
      p.forget();
    });
  }

  /** True for parameters of a single element. */
  get isScalar(): boolean {
    return this.itemSize === 1;
  }

  /** The n gradients, 0 where there is none. */
  gradients(): Tensor[] {
    return this.parameters.map((p) => p.grad ?? zerosLike(p));
  }

  /** (n, 1, ...): a tensor (n) in the form that broadcasts over the parameters. */
  perItem(t: Tensor): Tensor {
    return t.view([this.parameters.length, ...this.values.shape.slice(1).map(() => 1)]);
  }

  /** Absent before the first step. */
  get state(): BatchState | undefined {
    return this.current;
  }
  /** Frees the state before. */
  set state(state: BatchState | undefined) {
    this.current?.expAvgSq.dispose();
    this.current?.delta.dispose();
    this.current = state;
  }

  /** Frees everything; the parameters stay. */
  dispose(): void {
    this.state = undefined;
    this.values.dispose();
  }
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
