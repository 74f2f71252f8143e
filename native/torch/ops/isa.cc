// Asks the CPU once. Elsewhere than on x86-64 there is one set, which the compiler knows.
#include "torch/ops/isa.h"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace serac {
namespace {

const char* const kNames[] = {"plain", "avx2", "avx512", "avx512bf16", "amx"};

#if defined(__x86_64__)
// Linux lets a process use the tile registers once it has asked.
bool hasAmx() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA: asm/prctl.h of newer kernels
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Isa best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::plain;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) return Isa::avx2;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::avx512;
  return hasAmx() ? Isa::amx : Isa::avx512bf16;
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
