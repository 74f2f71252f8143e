// Backward passes, gradients, grad mode and autocast.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "compat.h"
#include "environment.h"

namespace serac {
namespace {

// Handles at p[0..count): 0 is an undefined tensor.
std::vector<at::Tensor> take(Environment& e, const double* p, size_t count) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) tensors.push_back(p[i] == 0 ? at::Tensor() : tensorOf(e, p[i]));
  return tensors;
}

template <typename F>
auto asTorchError(const char* what, F&& f) {
  try {
    return f();
  } catch (const c10::Error& error) {
    throw CodedError("TORCH_FAILED", std::string(what) + ": " + error.what_without_backtrace());
  }
}

// backward(outputs, inputs, retainGraph, createGraph): tape holds outputs, their gradients (0: ones), inputs.
napi_value backward(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<4> args(env, info);
    Environment& e = environmentOf(env);
    const size_t outputs = static_cast<size_t>(toInt(env, args[0])), inputs = static_cast<size_t>(toInt(env, args[1]));
    if (2 * outputs + inputs > e.tapeSize) throw std::runtime_error("internal: the tape is too short");
    const auto roots = take(e, e.tape, outputs), grads = take(e, e.tape + outputs, outputs), leaves = take(e, e.tape + 2 * outputs, inputs);
    asTorchError("backward", [&] {
      torch::autograd::backward(roots, grads, toBool(env, args[2]), toBool(env, args[3]), leaves);
      return 0;
    });
    return undefined(env);
  });
}

// grad(outputs, inputs, retainGraph, createGraph, allowUnused): gradients of the inputs to the tape (0: none).
napi_value grad(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<5> args(env, info);
    Environment& e = environmentOf(env);
    const size_t outputs = static_cast<size_t>(toInt(env, args[0])), inputs = static_cast<size_t>(toInt(env, args[1]));
    if (2 * outputs + inputs > e.tapeSize) throw std::runtime_error("internal: the tape is too short");
    const auto roots = take(e, e.tape, outputs), grads = take(e, e.tape + outputs, outputs), leaves = take(e, e.tape + 2 * outputs, inputs);
    const auto results =
        asTorchError("grad", [&] { return torch::autograd::grad(roots, leaves, grads, toBool(env, args[2]), toBool(env, args[3]), toBool(env, args[4])); });
    for (size_t i = 0; i < results.size(); ++i) e.tape[i] = results[i].defined() ? e.tensors.add(results[i]) : 0;
    return undefined(env);
  });
}

// gradOf(handle): a handle of .grad, or 0.
napi_value gradOf(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    const at::Tensor g = tensorOf(e, toDouble(env, args[0])).grad();
    return fromDouble(env, g.defined() ? e.tensors.add(g) : 0);
  });
}

napi_value setGradOf(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<2> args(env, info);
    Environment& e = environmentOf(env);
    const double g = toDouble(env, args[1]);
    tensorOf(e, toDouble(env, args[0])).mutable_grad() = g == 0 ? at::Tensor() : tensorOf(e, g);
    return undefined(env);
  });
}

napi_value setGradMode(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    const bool before = at::GradMode::is_enabled();
    at::GradMode::set_enabled(toBool(env, args[0]));
    return fromBool(env, before);
  });
}

c10::DeviceType deviceType(napi_env env, napi_value v) { return toString(env, v) == "cuda" ? c10::kCUDA : c10::kCPU; }

// autocastBegin(device, enabled, dtype): returns [enabled, dtype] as they were.
napi_value autocastBegin(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<3> args(env, info);
    const c10::DeviceType device = deviceType(env, args[0]);
    napi_value before;
    check(env, napi_create_array(env, &before));
    check(env, napi_set_element(env, before, 0, fromBool(env, compat::autocastEnabled(device))));
    check(env, napi_set_element(env, before, 1, fromDouble(env, static_cast<double>(compat::autocastDtype(device)))));
    compat::setAutocast(device, toBool(env, args[1]), static_cast<at::ScalarType>(toInt(env, args[2])));
    at::autocast::increment_nesting();
    return before;
  });
}

// autocastEnd(device, enabled, dtype): puts back what was; leaving the outermost clears the cache of casted weights.
napi_value autocastEnd(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<3> args(env, info);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    compat::setAutocast(deviceType(env, args[0]), toBool(env, args[1]), static_cast<at::ScalarType>(toInt(env, args[2])));
    return undefined(env);
  });
}

}  // namespace

void exportAutograd(napi_env env, napi_value exports) {
  exportFunction(env, exports, "backward", backward);
  exportFunction(env, exports, "grad", grad);
  exportFunction(env, exports, "gradOf", gradOf);
  exportFunction(env, exports, "setGradOf", setGradOf);
  exportFunction(env, exports, "setGradMode", setGradMode);
  exportFunction(env, exports, "autocastBegin", autocastBegin);
  exportFunction(env, exports, "autocastEnd", autocastEnd);
}

}  // namespace serac
