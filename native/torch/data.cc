// Tensors from and to JS memory, and what can be known about a tensor.
#include <ATen/ATen.h>

#include <cstring>

#include "environment.h"

namespace serac {
namespace {

void drainReleased(napi_env env, Environment& e) {
  std::vector<napi_ref> refs;
  {
    std::lock_guard<std::mutex> hold(e.released->lock);
    refs.swap(e.released->references);
  }
  for (napi_ref ref : refs) napi_delete_reference(env, ref);
}

std::vector<int64_t> sizesFrom(napi_env env, napi_value array) {
  uint32_t n = 0;
  check(env, napi_get_array_length(env, array, &n));
  std::vector<int64_t> sizes(n);
  for (uint32_t i = 0; i < n; ++i) {
    napi_value v;
    check(env, napi_get_element(env, array, i, &v));
    sizes[i] = toInt(env, v);
    if (sizes[i] < 0) throw CodedError("SHAPE_MISMATCH", "a tensor cannot have a negative size");
  }
  return sizes;
}

// fromData(typedArray, dtype, sizes, share): a tensor on the CPU, by copy or looking into the array.
napi_value fromData(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<4> args(env, info);
    Environment& e = environmentOf(env);
    drainReleased(env, e);
    const Bytes bytes = toBytes(env, args[0]);
    const auto dtype = static_cast<at::ScalarType>(toInt(env, args[1]));
    const std::vector<int64_t> sizes = sizesFrom(env, args[2]);
    int64_t count = 1;
    for (const int64_t s : sizes) count *= s;
    if (static_cast<size_t>(count) * c10::elementSize(dtype) != bytes.size)
      throw CodedError("SHAPE_MISMATCH", "the array holds " + std::to_string(bytes.size / c10::elementSize(dtype)) + " elements, the shape asks for " + std::to_string(count));
    const auto options = at::TensorOptions().dtype(dtype);
    if (!toBool(env, args[3])) {
      at::Tensor t = at::empty(sizes, options);
      if (bytes.size) std::memcpy(t.data_ptr(), bytes.data, bytes.size);
      return fromDouble(env, e.tensors.add(std::move(t)));
    }
    napi_ref reference;
    check(env, napi_create_reference(env, args[0], 1, &reference));
    at::Tensor t = at::from_blob(
        bytes.data, sizes,
        [queue = e.released, reference](void*) {
          std::lock_guard<std::mutex> hold(queue->lock);
          queue->references.push_back(reference);
        },
        options);
    return fromDouble(env, e.tensors.add(std::move(t)));
  });
}

// toData(handle): an ArrayBuffer with a copy of the elements, row-major.
napi_value toData(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    at::NoGradGuard noGrad;
    Environment& e = environmentOf(env);
    drainReleased(env, e);
    const at::Tensor t = tensorOf(e, toDouble(env, args[0])).detach().to(at::kCPU).contiguous();
    void* data = nullptr;
    napi_value buffer;
    check(env, napi_create_arraybuffer(env, t.nbytes(), &data, &buffer));
    if (t.nbytes()) std::memcpy(data, t.data_ptr(), t.nbytes());
    return buffer;
  });
}

// view(handle): an ArrayBuffer that looks into a contiguous CPU tensor and keeps its memory alive.
napi_value view(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    const at::Tensor& t = tensorOf(environmentOf(env), toDouble(env, args[0]));
    if (!t.is_contiguous() || !t.device().is_cpu()) throw CodedError("TORCH_BAD_ARGUMENT", "only a contiguous tensor on the CPU can be looked into without a copy");
    napi_value buffer;
    if (t.nbytes() == 0) {
      void* data = nullptr;
      check(env, napi_create_arraybuffer(env, 0, &data, &buffer));
      return buffer;
    }
    auto* held = new at::Tensor(t.detach());
    const napi_status status = napi_create_external_arraybuffer(
        env, held->data_ptr(), held->nbytes(), [](napi_env, void*, void* hint) { delete static_cast<at::Tensor*>(hint); }, held, &buffer);
    if (status != napi_ok) delete held;
    check(env, status);
    return buffer;
  });
}

// info(handle): dtype, device type, device index, requires_grad, is_leaf, contiguous, dimensions, sizes, strides to the tape.
napi_value tensorInfo(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    const at::Tensor& t = tensorOf(e, toDouble(env, args[0]));
    if (e.tapeSize < 7 + 2 * static_cast<size_t>(t.dim())) throw std::runtime_error("internal: the tape is too short");
    double* p = e.tape;
    *p++ = static_cast<double>(t.scalar_type());
    *p++ = static_cast<double>(t.device().type());
    *p++ = t.device().index();
    *p++ = t.requires_grad();
    *p++ = t.is_leaf();
    *p++ = t.is_contiguous();
    *p++ = static_cast<double>(t.dim());
    for (const int64_t s : t.sizes()) *p++ = static_cast<double>(s);
    for (const int64_t s : t.strides()) *p++ = static_cast<double>(s);
    return undefined(env);
  });
}

// item(handle): the value of a tensor of one element.
napi_value item(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    const at::Tensor& t = tensorOf(environmentOf(env), toDouble(env, args[0]));
    if (t.numel() != 1) throw CodedError("SHAPE_MISMATCH", "item() needs a tensor of one element, this one has " + std::to_string(t.numel()));
    const at::Scalar s = t.item();
    if (s.isBoolean()) return fromDouble(env, s.toBool());
    if (s.isIntegral(false)) return fromDouble(env, static_cast<double>(s.toLong()));
    return fromDouble(env, s.toDouble());
  });
}

// release(count): frees the handles at the start of the tape.
napi_value release(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    const size_t count = std::min(static_cast<size_t>(toInt(env, args[0])), e.tapeSize);
    for (size_t i = 0; i < count; ++i) e.tensors.remove(e.tape[i]);
    drainReleased(env, e);
    return undefined(env);
  });
}

napi_value releaseOne(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    environmentOf(env).tensors.remove(toDouble(env, args[0]));
    return undefined(env);
  });
}

}  // namespace

void exportData(napi_env env, napi_value exports) {
  exportFunction(env, exports, "fromData", fromData);
  exportFunction(env, exports, "toData", toData);
  exportFunction(env, exports, "view", view);
  exportFunction(env, exports, "info", tensorInfo);
  exportFunction(env, exports, "item", item);
  exportFunction(env, exports, "release", release);
  exportFunction(env, exports, "releaseOne", releaseOne);
}

}  // namespace serac
