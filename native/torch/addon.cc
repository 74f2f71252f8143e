// The addon: registers serac's operators once in a process, and its functions in each environment.
#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>

#include "environment.h"
#include "torch/allocator.h"
#include "ops/register.h"
#include "torch/signals.h"

namespace serac {

Environment& environmentOf(napi_env env) {
  void* data = nullptr;
  check(env, napi_get_instance_data(env, &data));
  if (!data) throw std::runtime_error("internal: no environment");
  return *static_cast<Environment*>(data);
}

at::Tensor& tensorOf(Environment& e, double handle, const char* what) {
  at::Tensor* t = e.tensors.find(handle);
  if (!t) throw CodedError("TENSOR_FREED", std::string("the ") + what + " was freed");
  return *t;
}

namespace {

void registerOnce() {
  static std::mutex lock;
  static bool done = false;
  std::lock_guard<std::mutex> hold(lock);
  if (done) return;
  // Registering twice aborts the process inside libtorch: a second copy of this file must stop here.
  if (c10::Dispatcher::singleton().findSchema({"serac::swoosh_l", ""}))
    throw CodedError("NATIVE_TWICE", "another copy of serac's torch addon is loaded in this process");
  installAllocator();
  registerOperators();
  done = true;
}

napi_value init(napi_env env, napi_value exports) {
  return guard(env, [&]() -> napi_value {
    registerOnce();
    leaveSignals();
    auto* e = new Environment;
    const napi_status status = napi_set_instance_data(env, e, [](napi_env, void* data, void*) { delete static_cast<Environment*>(data); }, nullptr);
    if (status != napi_ok) delete e;
    check(env, status);
    exportCall(env, exports);
    exportData(env, exports);
    exportAutograd(env, exports);
    exportRandom(env, exports);
    exportRuntime(env, exports);
    exportProfile(env, exports);
    exportShare(env, exports);
    return exports;
  });
}

}  // namespace
}  // namespace serac

NAPI_MODULE(serac_torch, serac::init)
