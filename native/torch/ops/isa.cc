// Asks the CPU once. Elsewhere than on x86-64 there is one set, which the compiler knows.
#include "torch/ops/isa.h"

#include <algorithm>
#include <atomic>

namespace serac {
namespace {

const char* const kNames[] = {"plain", "avx2", "avx512", "avx512bf16"};

Isa best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::plain;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) return Isa::avx2;
  return __builtin_cpu_supports("avx512bf16") ? Isa::avx512bf16 : Isa::avx512;
#else
  return Isa::plain;
#endif
}

std::atomic<Isa>& chosen() {
  static std::atomic<Isa> isa{best()};
  return isa;
}

}  // namespace

Isa currentIsa() { return chosen().load(std::memory_order_relaxed); }

std::string isaName(Isa isa) { return kNames[static_cast<int>(isa)]; }

std::vector<std::string> isaNames() { return {kNames, kNames + static_cast<int>(best()) + 1}; }

bool setIsa(const std::string& name) {
  const auto names = isaNames();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return false;
  chosen() = static_cast<Isa>(at - names.begin());
  return true;
}

}  // namespace serac
