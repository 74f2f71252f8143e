// Memory accounting, threads, and what libtorch this is.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <link.h>

#include "compat.h"
#include "environment.h"
#include "torch/allocator.h"
#include "torch/composed/composed.h"
#include "torch/ops/gemm.h"
#include "torch/ops/isa.h"
#include "torch/signals.h"

namespace serac {
namespace {

napi_value fromStrings(napi_env env, const std::vector<std::string>& strings) {
  napi_value list;
  check(env, napi_create_array(env, &list));
  for (size_t i = 0; i < strings.size(); ++i) check(env, napi_set_element(env, list, static_cast<uint32_t>(i), fromString(env, strings[i])));
  return list;
}

napi_value liveTensors(napi_env env, napi_callback_info) {
  return guard(env, [&] { return fromDouble(env, static_cast<double>(environmentOf(env).tensors.live())); });
}

// memory(resetPeak): [allocated, peak] in bytes on the CPU, of all threads.
napi_value memory(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    napi_value list;
    check(env, napi_create_array(env, &list));
    check(env, napi_set_element(env, list, 0, fromDouble(env, static_cast<double>(allocatedBytes()))));
    check(env, napi_set_element(env, list, 1, fromDouble(env, static_cast<double>(peakBytes()))));
    if (toBool(env, args[0])) resetPeakBytes();
    return list;
  });
}

// limitMemory(bytes): the most that CPU tensors may hold; 0 is no limit.
napi_value limitMemory(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    limitBytes(toInt(env, args[0]));
    return undefined(env);
  });
}

napi_value endAtSecond(napi_env env, napi_callback_info) {
  return guard(env, [&]() -> napi_value {
    endAtSecondSignal();
    return undefined(env);
  });
}

// Tells V8 how much native memory hangs on its objects, so that it collects in time.
napi_value reportMemory(napi_env env, napi_callback_info) {
  return guard(env, [&]() -> napi_value {
    Environment& e = environmentOf(env);
    const int64_t now = allocatedBytes();
    int64_t total = 0;
    if (now != e.reportedBytes) check(env, napi_adjust_external_memory(env, now - e.reportedBytes, &total));
    e.reportedBytes = now;
    return undefined(env);
  });
}

napi_value threads(napi_env env, napi_callback_info) {
  return guard(env, [&] { return fromDouble(env, at::get_num_threads()); });
}

napi_value setThreads(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    at::set_num_threads(static_cast<int>(toInt(env, args[0])));
    return undefined(env);
  });
}

// setComposed(on): whether operators are composed of libtorch's own; returns what was set before.
napi_value setComposedMode(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    return fromBool(env, setComposed(toBool(env, args[0])));
  });
}

napi_value isComposed(napi_env env, napi_callback_info) {
  return guard(env, [&] { return fromBool(env, composed()); });
}

// isas(): the names of the sets of instructions that the CPU has, the best last.
napi_value isas(napi_env env, napi_callback_info) {
  return guard(env, [&] { return fromStrings(env, isaNames()); });
}

// setIsa(name): what serac's kernels use from now on, in all threads.
napi_value setKernelIsa(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    const std::string name = toString(env, args[0]);
    if (!setIsa(name)) throw CodedError("CONFIG_BAD_VALUE", "this CPU has no set of instructions named " + name);
    return undefined(env);
  });
}

// The BLAS libraries loaded in this process, each as "path|its own description".
std::vector<std::string> loadedBlas() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        const std::string path = info->dlpi_name ? info->dlpi_name : "";
        const size_t slash = path.rfind('/');
        const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
        if (file.find("blas") == std::string::npos && file.find("mkl") == std::string::npos) return 0;
        std::string text = path + "|";
        if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
          for (const char* name : {"openblas_get_config", "openblas_get_config64_"})
            if (auto* f = reinterpret_cast<char* (*)()>(dlsym(library, name))) text += f();
          if (auto* f = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"))) text += std::string(" parallel=") + std::to_string(f());
          dlclose(library);
        }
        static_cast<std::vector<std::string>*>(out)->push_back(text);
        return 0;
      },
      &found);
  return found;
}

napi_value describe(napi_env env, napi_callback_info) {
  return guard(env, [&]() -> napi_value {
    napi_value result;
    check(env, napi_create_object(env, &result));
    set(env, result, "version", fromString(env, TORCH_VERSION));
    set(env, result, "config", fromString(env, at::show_config()));
    set(env, result, "parallel", fromString(env, at::get_parallel_info()));
    set(env, result, "threads", fromDouble(env, at::get_num_threads()));
    set(env, result, "products", fromString(env, gemmName()));
    set(env, result, "isa", fromString(env, isaName(currentIsa())));
    set(env, result, "cuda", fromBool(env, at::hasCUDA()));
    Dl_info library{};
    set(env, result, "path", fromString(env, dladdr(reinterpret_cast<void*>(&at::get_num_threads), &library) && library.dli_fname ? library.dli_fname : ""));
    set(env, result, "blas", fromStrings(env, loadedBlas()));
    return result;
  });
}

}  // namespace

void exportRuntime(napi_env env, napi_value exports) {
  exportFunction(env, exports, "liveTensors", liveTensors);
  exportFunction(env, exports, "memory", memory);
  exportFunction(env, exports, "limitMemory", limitMemory);
  exportFunction(env, exports, "reportMemory", reportMemory);
  exportFunction(env, exports, "threads", threads);
  exportFunction(env, exports, "setThreads", setThreads);
  exportFunction(env, exports, "setComposed", setComposedMode);
  exportFunction(env, exports, "isComposed", isComposed);
  exportFunction(env, exports, "isas", isas);
  exportFunction(env, exports, "setIsa", setKernelIsa);
  exportFunction(env, exports, "endAtSecondSignal", endAtSecond);
  exportFunction(env, exports, "describe", describe);
}

}  // namespace serac
