// Generators of random numbers and their state.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "environment.h"

namespace serac {
namespace {

at::Generator& generatorOf(Environment& e, double handle) {
  at::Generator* g = e.generators.find(handle);
  if (!g) throw CodedError("TENSOR_FREED", "the generator was freed");
  return *g;
}

// newGenerator(device, seed as BigInt)
napi_value newGenerator(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<2> args(env, info);
    const c10::Device device(toString(env, args[0]));
    uint64_t seed = 0;
    bool lossless = false;
    check(env, napi_get_value_bigint_uint64(env, args[1], &seed, &lossless));
    at::Generator g = device.is_cpu() ? at::detail::createCPUGenerator(seed) : at::globalContext().defaultGenerator(device).clone();
    {
      std::lock_guard<std::mutex> lock(g.mutex());
      g.set_current_seed(seed);
    }
    return fromDouble(env, environmentOf(env).generators.add(std::move(g)));
  });
}

napi_value generatorState(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    at::Generator& g = generatorOf(e, toDouble(env, args[0]));
    std::lock_guard<std::mutex> lock(g.mutex());
    return fromDouble(env, e.tensors.add(g.get_state()));
  });
}

napi_value setGeneratorState(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<2> args(env, info);
    Environment& e = environmentOf(env);
    at::Generator& g = generatorOf(e, toDouble(env, args[0]));
    std::lock_guard<std::mutex> lock(g.mutex());
    try {
      g.set_state(tensorOf(e, toDouble(env, args[1])));
    } catch (const c10::Error& error) {
      throw CodedError("TORCH_FAILED", std::string("generator state: ") + error.what_without_backtrace());
    }
    return undefined(env);
  });
}

napi_value releaseGenerator(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    environmentOf(env).generators.remove(toDouble(env, args[0]));
    return undefined(env);
  });
}

}  // namespace

void exportRandom(napi_env env, napi_value exports) {
  exportFunction(env, exports, "newGenerator", newGenerator);
  exportFunction(env, exports, "generatorState", generatorState);
  exportFunction(env, exports, "setGeneratorState", setGeneratorState);
  exportFunction(env, exports, "releaseGenerator", releaseGenerator);
}

}  // namespace serac
