/** What is seen of a model in training: `--inf-check` and `--print-diagnostics`. */
import { expect, test } from "vitest";
import { Balancer, Linear, Module } from "../../src/nn/index.ts";
import { fromTypedArray, Generator, liveTensors, noGrad, randn, scope, type Tensor } from "../../src/torch/index.ts";
import { Diagnostics } from "../../src/train/diagnostics.ts";
import { InfCheck } from "../../src/train/infCheck.ts";
import { Random } from "../../src/util/random.ts";

class Small extends Module {
  private readonly first: Linear;
  private readonly balancer: Balancer;
  private readonly second: Linear;

  constructor(generator: Generator) {
    super();
    this.first = this.child("first", new Linear({ inFeatures: 4, outFeatures: 6, generator }));
    this.balancer = this.child("balancer", new Balancer({ channelDim: -1 }));
    this.second = this.child("second", new Linear({ inFeatures: 6, outFeatures: 2, generator }));
  }

  forward(x: Tensor): { y: Tensor; lengths: number[] } {
    return scope(() => ({ y: this.second.forward(this.balancer.forward(this.first.forward(x))), lengths: [1] }));
  }
}

function model(): { small: Small; generator: Generator } {
  const generator = new Generator(3);
  const small = scope(() => new Small(generator));
  small.train({ random: new Random(1), generator });
  return { small, generator };
}

test("--inf-check names outputs, their gradients and parameters' gradients that are not finite, and gives the model back", () => {
  const before = liveTensors();
  const { small, generator } = model();
  const said: string[] = [];
  const check = new InfCheck(small, (line) => said.push(line));
  const pass = (x: Tensor): void => {
    small.forward(x).y.sum().backward();
    check.afterBackward();
    for (const parameter of small.parameters()) parameter.grad = null;
  };
  scope(() => pass(randn([3, 4], { generator })));
  expect(said).toEqual([]);
  scope(() => pass(fromTypedArray(new Float32Array([1, 2, 3, Number.NaN]), [1, 4])));
  expect(said).toEqual([
    "The sum of first.output is not finite",
    "The sum of balancer.output is not finite",
    "The sum of second.output is not finite",
    "The sum of <top-level>.output[0] is not finite",
    "The sum of first.weight.param_grad is not finite",
    "The sum of second.weight.param_grad is not finite",
  ]);
  said.length = 0;
  noGrad(() =>
    scope(() => {
      small.stateDict().get("second.weight")?.fill_(Number.POSITIVE_INFINITY);
    }),
  );
  scope(() => pass(randn([3, 4], { generator })));
  expect(said).toContain("The sum of first.grad is not finite");
  check.close();
  said.length = 0;
  scope(() => {
    small.forward(randn([3, 4], { generator }));
  });
  expect(said).toEqual([]);
  small.dispose();
  expect(liveTensors()).toBe(before);
});

test("diagnostics tell of every output, gradient and parameter, by the names and classes of icefall", () => {
  const before = liveTensors();
  const { small, generator } = model();
  const diagnostics = new Diagnostics(small);
  for (let batch = 0; batch < 3; batch++)
    scope(() => {
      small
        .forward(randn([3 + batch, 4], { generator }))
        .y.square()
        .sum()
        .backward();
      diagnostics.afterBackward();
    });
  const lines = diagnostics.lines();
  const names = [...new Set(lines.map((line) => /^module=([^,]+),/.exec(line)?.[1]))];
  expect(names).toEqual([
    "<top-level>.grad[0]",
    "<top-level>.output[0]",
    ...["balancer.grad", "balancer.output"],
    ...["first.bias.param_grad", "first.bias.param_value", "first.grad", "first.output", "first.weight.param_grad", "first.weight.param_value"],
    ...["second.bias.param_grad", "second.bias.param_value", "second.grad", "second.output", "second.weight.param_grad", "second.weight.param_value"],
  ]);
  expect(lines.some((line) => line.startsWith("module=balancer.output, type=Balancer[0.05,0.95,0.2,100], dim=0, size=3..5, abs "))).toBe(true);
  expect(lines.some((line) => /^module=first\.output, type=Linear, dim=1, size=6, eigs \[/.test(line))).toBe(true);
  diagnostics.close();
  for (const parameter of small.parameters()) parameter.grad = null;
  small.dispose();
  expect(liveTensors()).toBe(before);
});
