/**
 * The operators that have typed methods and functions: the generator's list.
 * A name without overloads is `aten::name` itself; the order of overloads is the order in which arguments are tried.
 * Any other operator can be called by `callOperator`.
 */

/** Methods of Tensor. Names as in the dispatcher; the generator writes them in camelCase. */
export const methods: Record<string, readonly string[]> = Object.fromEntries(
  `
  abs acos asin atan ceil cos exp expm1 floor log log1p log2 neg reciprocal relu round rsqrt sigmoid sign sin sqrt square tanh erf
  abs_ exp_ neg_ relu_ sigmoid_ sqrt_ tanh_ zero_ rsqrt_ reciprocal_
  isfinite isnan isinf logical_not bitwise_not
  clone contiguous detach detach_ t requires_grad_ retain_grad numpy_T
  silu softplus log_sigmoid
  logical_and logical_or logical_xor minimum maximum atan2 logaddexp
  matmul mm bmm mv dot outer addmm baddbmm
  view:view reshape expand expand_as permute unsqueeze flip roll repeat movedim:movedim.int
  unsqueeze_ index_fill_:index_fill_.int_Scalar
  gather scatter_:scatter_.src,scatter_.value scatter_add_ scatter:scatter.src,scatter.value index_select index_add_ index_copy_ masked_select take_along_dim
  tril triu tril_ triu_ diagonal diag nonzero
  cumsum cumprod logcumsumexp cummax cummin
  glu
  topk
  detach_copy
  unfold
  type_as
  lerp_:lerp_.Scalar,lerp_.Tensor
  addcmul addcmul_ addcdiv addcdiv_
  copy_ set_data:set_data
  nan_to_num nan_to_num_
  narrow
  `
    .split(/\s+/)
    .filter(Boolean)
    .map((entry) => {
      const [name, overloads] = entry.split(":") as [string, string | undefined];
      return [name, overloads ? overloads.split(",") : [name]];
    }),
);

Object.assign(methods, {
  add: ["add.Tensor", "add.Scalar"],
  add_: ["add_.Tensor", "add_.Scalar"],
  sub: ["sub.Tensor", "sub.Scalar"],
  sub_: ["sub_.Tensor", "sub_.Scalar"],
  rsub: ["rsub.Scalar"],
  mul: ["mul.Tensor", "mul.Scalar"],
  mul_: ["mul_.Tensor", "mul_.Scalar"],
  div: ["div.Tensor", "div.Scalar"],
  div_: ["div_.Tensor", "div_.Scalar"],
  floor_divide: ["floor_divide", "floor_divide.Scalar"],
  remainder: ["remainder.Scalar", "remainder.Tensor"],
  pow: ["pow.Tensor_Scalar", "pow.Tensor_Tensor"],
  pow_: ["pow_.Scalar"],
  eq: ["eq.Tensor", "eq.Scalar"],
  ne: ["ne.Tensor", "ne.Scalar"],
  lt: ["lt.Tensor", "lt.Scalar"],
  le: ["le.Tensor", "le.Scalar"],
  gt: ["gt.Tensor", "gt.Scalar"],
  ge: ["ge.Tensor", "ge.Scalar"],
  bitwise_and: ["bitwise_and.Tensor"],
  bitwise_or: ["bitwise_or.Tensor"],
  clamp: ["clamp", "clamp.Tensor"],
  clamp_: ["clamp_"],
  clamp_min: ["clamp_min"],
  clamp_max: ["clamp_max"],
  fill_: ["fill_.Scalar", "fill_.Tensor"],
  masked_fill: ["masked_fill.Scalar", "masked_fill.Tensor"],
  masked_fill_: ["masked_fill_.Scalar", "masked_fill_.Tensor"],
  sum: ["sum", "sum.dim_IntList"],
  mean: ["mean", "mean.dim"],
  var: ["var.correction"],
  std: ["std.correction"],
  prod: ["prod"],
  norm: ["norm.Scalar", "norm.ScalarOpt_dim"],
  max: ["max", "max.dim"],
  min: ["min", "min.dim"],
  amax: ["amax"],
  amin: ["amin"],
  median: ["median", "median.dim"],
  sort: ["sort", "sort.stable"],
  argsort: ["argsort"],
  argmax: ["argmax"],
  argmin: ["argmin"],
  any: ["any", "any.dim"],
  all: ["all", "all.dim"],
  logsumexp: ["logsumexp"],
  softmax: ["softmax.int"],
  log_softmax: ["log_softmax.int"],
  transpose: ["transpose.int"],
  squeeze: ["squeeze", "squeeze.dim"],
  flatten: ["flatten.using_ints"],
  unflatten: ["unflatten.int"],
  select: ["select.int"],
  slice: ["slice.Tensor"],
  split: ["split.Tensor", "split_with_sizes"],
  chunk: ["chunk"],
  unbind: ["unbind.int"],
  where: ["where.self"],
  equal: ["equal"],
  allclose: ["allclose"],
  as_strided: ["as_strided"],
  repeat_interleave: ["repeat_interleave.self_int", "repeat_interleave.self_Tensor"],
  one_hot: ["one_hot"],
  bernoulli_: ["bernoulli_.float"],
  uniform_: ["uniform_"],
  normal_: ["normal_"],
  index: ["index.Tensor"],
  index_put_: ["index_put_"],
  new_zeros: ["new_zeros"],
  to_dtype_: ["to.dtype"],
  to_device_: ["to.device"],
  detach: ["detach"],
});
delete methods.numpy_T;
delete methods.detach_copy;
delete methods.set_data;

/** Free functions: what has no tensor to be a method of, or reads better so. */
export const functions: Record<string, readonly string[]> = {
  cat: ["cat"],
  stack: ["stack"],
  where: ["where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"],
  einsum: ["einsum"],
  linear: ["linear"],
  embedding: ["embedding"],
  conv1d: ["conv1d", "conv1d.padding"],
  conv2d: ["conv2d", "conv2d.padding"],
  pad: ["pad"],
  constant_pad_nd: ["constant_pad_nd"],
  layer_norm: ["layer_norm"],
  ctc_loss: ["ctc_loss.IntList", "ctc_loss.Tensor"],
  nll_loss: ["nll_loss"],
  kl_div: ["kl_div"],
  zeros_like: ["zeros_like"],
  ones_like: ["ones_like"],
  full_like: ["full_like"],
  empty_like: ["empty_like"],
  rand_like: ["rand_like"],
  randn_like: ["randn_like"],
  foreach_add_: ["_foreach_add_.List", "_foreach_add_.Scalar"],
  foreach_mul_: ["_foreach_mul_.Scalar"],
  foreach_zero_: ["_foreach_zero_"],
};

/** Operators of our own: `serac::name`, functions of the namespace `ops`. */
export const own: readonly string[] = [
  "activation_dropout_linear",
  "attend",
  "attention_weights",
  "balancer",
  "bias_norm",
  "bmm",
  "bypass",
  "conv2d",
  "depthwise_conv1d",
  "depthwise_conv2d",
  "downsample",
  "dropout_shared",
  "feedforward",
  "gated_attend",
  "gated_conv1d",
  "glu",
  "joiner_log_probs",
  "limit_param_value",
  "linear",
  "mutual_information",
  "penalize_abs_values_gt",
  "pick_log_probs",
  "pointwise_feedforward",
  "residual",
  "scale_grad",
  "scaled_adam_sums",
  "scaled_adam_update_",
  "softmax",
  "swoosh_l",
  "swoosh_l_exact",
  "swoosh_r",
  "swoosh_r_exact",
  "whiten",
  "whitening_metric",
  "with_loss",
];
