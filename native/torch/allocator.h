// libtorch's memory on the CPU: counted, and kept for the next tensor of its size.
#pragma once
#include <cstdint>

namespace serac {

// Puts the allocator in the place of libtorch's own. Once, before tensors are made.
void installAllocator();

// Bytes that tensors hold, in all threads, and the most that they held since the last reset.
int64_t allocatedBytes();
int64_t peakBytes();
void resetPeakBytes();

// Tensors of all threads may hold so many bytes; one that would make them more is an error, as where the memory is at its end. 0 is no limit.
void limitBytes(int64_t most);

}  // namespace serac
