// Work off the main thread behind a Promise.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "napi/napi.h"

namespace serac {

// run() is on a worker thread and may throw; result() is on the main thread when it did not. Neither may keep pointers into JS memory.
struct Task {
  virtual ~Task() = default;
  virtual void run() = 0;
  virtual napi_value result(napi_env env) = 0;

  napi_async_work work = nullptr;
  napi_deferred deferred = nullptr;
  std::string code, message;
};

// Starts the task and returns its Promise.
napi_value launch(napi_env env, std::unique_ptr<Task> task);

inline std::vector<float> copyFloats(napi_env env, napi_value v) {
  bool is = false;
  check(env, napi_is_typedarray(env, v, &is));
  napi_typedarray_type type = napi_int8_array;
  size_t length = 0;
  void* data = nullptr;
  if (is) check(env, napi_get_typedarray_info(env, v, &type, &length, &data, nullptr, nullptr));
  if (!is || type != napi_float32_array) throw CodedError("CONFIG_BAD_VALUE", "expected a Float32Array");
  const float* p = static_cast<const float*>(data);
  return std::vector<float>(p, p + length);
}

template <typename T>
napi_value fromVector(napi_env env, napi_typedarray_type type, const std::vector<T>& v) {
  void* data = nullptr;
  napi_value buffer, array;
  check(env, napi_create_arraybuffer(env, v.size() * sizeof(T), &data, &buffer));
  if (!v.empty()) std::memcpy(data, v.data(), v.size() * sizeof(T));
  check(env, napi_create_typedarray(env, type, v.size(), buffer, 0, &array));
  return array;
}
inline napi_value fromFloats(napi_env env, const std::vector<float>& v) { return fromVector(env, napi_float32_array, v); }

inline napi_value object(napi_env env) {
  napi_value v;
  check(env, napi_create_object(env, &v));
  return v;
}

}  // namespace serac
