// The instructions that serac's own kernels use: the best that the CPU has, unless fewer were asked for (SERAC_ISA, read in src/torch/native.ts).
#pragma once
#include <string>
#include <vector>

namespace serac {

// Each has what stands before it. Loops are compiled for the first three; products of bfloat16 need the fourth, and are faster with the last.
enum class Isa { plain, avx2, avx512, avx512bf16, amx };

// The one in use, for the whole process.
Isa currentIsa();

// "plain", "avx2", ...
std::string isaName(Isa isa);
// The names of those that this CPU has, the best last.
std::vector<std::string> isaNames();
// False, and nothing happens, where the CPU has none of this name.
bool setIsa(const std::string& name);

}  // namespace serac
