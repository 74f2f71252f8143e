/** The transducer lattice as a plain composition of operators, one cell at a time: what the operator must equal. */
import { full, stack, type Tensor, zeros } from "../../src/torch/index.ts";

/**
 * Scores (N) of all paths; differentiable through libtorch's own operators.
 * @param px (N, S, T+1), or (N, S, T) when modified
 * @param py (N, S+1, T)
 */
export function plainLattice(px: Tensor, py: Tensor, boundary: readonly (readonly number[])[], modified: boolean): Tensor {
  const scores = boundary.map((row, n) => {
    const [s0, t0, s1, t1] = row as [number, number, number, number];
    const options = { dtype: px.dtype };
    const cells = new Map<string, Tensor>();
    for (let s = s0; s <= s1; s++) {
      for (let t = t0; t <= t1; t++) {
        if (s === s0 && t === t0) {
          cells.set(`${s},${t}`, zeros([], options));
          continue;
        }
        const from = modified ? t - 1 : t;
        const symbol =
          s > s0 && from >= t0
            ? [
                cell(cells, s - 1, from).add(
                  px
                    .select(0, n)
                    .select(0, s - 1)
                    .select(0, from),
                ),
              ]
            : [];
        const blank =
          t > t0
            ? [
                cell(cells, s, t - 1).add(
                  py
                    .select(0, n)
                    .select(0, s)
                    .select(0, t - 1),
                ),
              ]
            : [];
        const ways = [...symbol, ...blank].filter((way) => way.item() !== Number.NEGATIVE_INFINITY); // logsumexp of -inf alone has no gradient
        cells.set(`${s},${t}`, ways.length === 0 ? full([], Number.NEGATIVE_INFINITY, options) : stack(ways, 0).logsumexp([0]));
      }
    }
    return cell(cells, s1, t1);
  });
  return stack(scores, 0);
}

const cell = (cells: Map<string, Tensor>, s: number, t: number): Tensor => cells.get(`${s},${t}`) as Tensor;
