// Handing tensors from one thread's table to another's: the same memory, not a copy. What is handed out waits here until it is taken, once.
#include <ATen/ATen.h>

#include <mutex>
#include <unordered_map>

#include "environment.h"

namespace serac {
namespace {

std::mutex gMutex;
std::unordered_map<uint64_t, at::Tensor> gWaiting;
uint64_t gNext = 1;

// shareTensors(count): handles on the tape become numbers under which another thread takes them; 0 stays 0.
napi_value shareTensors(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    const size_t count = static_cast<size_t>(toInt(env, args[0]));
    if (count > e.tapeSize) throw std::runtime_error("internal: the tape is too short");
    const std::lock_guard<std::mutex> lock(gMutex);
    for (size_t i = 0; i < count; ++i) {
      if (e.tape[i] == 0) continue;
      gWaiting.emplace(gNext, tensorOf(e, e.tape[i]));
      e.tape[i] = static_cast<double>(gNext++);
    }
    return undefined(env);
  });
}

// takeTensors(count): numbers on the tape become handles of this thread.
napi_value takeTensors(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    const size_t count = static_cast<size_t>(toInt(env, args[0]));
    if (count > e.tapeSize) throw std::runtime_error("internal: the tape is too short");
    const std::lock_guard<std::mutex> lock(gMutex);
    for (size_t i = 0; i < count; ++i) {
      if (e.tape[i] == 0) continue;
      const auto found = gWaiting.find(static_cast<uint64_t>(e.tape[i]));
      if (found == gWaiting.end()) throw CodedError("TENSOR_FREED", "a shared tensor was taken before, or never shared");
      e.tape[i] = e.tensors.add(std::move(found->second));
      gWaiting.erase(found);
    }
    return undefined(env);
  });
}

}  // namespace

void exportShare(napi_env env, napi_value exports) {
  exportFunction(env, exports, "shareTensors", shareTensors);
  exportFunction(env, exports, "takeTensors", takeTensors);
}

}  // namespace serac
