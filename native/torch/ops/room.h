// Memory that a thread keeps for its next product, in whole lines of the cache.
#pragma once
#include <c10/util/Exception.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace serac {

constexpr size_t kLine = 64;  // bytes; AMX reads rows that cross lines at an eighth of the speed

// To be declared thread_local. New memory is 0, what was used before holds what it held.
template <typename T>
class Room {
 public:
  T* of(int64_t count) {
    if (count > size_) {
      const size_t bytes = (sizeof(T) * static_cast<size_t>(count) + kLine - 1) / kLine * kLine;
      kept_.reset();
      size_ = 0;
      kept_.reset(static_cast<T*>(std::aligned_alloc(kLine, bytes)));
      TORCH_CHECK(kept_, "no memory for ", bytes, " bytes");
      std::memset(kept_.get(), 0, bytes);
      size_ = count;
    }
    return kept_.get();
  }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> kept_;
  int64_t size_ = 0;
};

}  // namespace serac
