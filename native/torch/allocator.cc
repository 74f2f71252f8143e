// Large blocks are not given back to the system but kept for tensors of like size: the system hands out memory page by page, cleared, which took a
// fifth of a training step. Kept and used together stay near the most that was ever in use. With composed operators libtorch's allocator serves,
// as it does the reference.
#include "torch/allocator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <torch/csrc/api/include/torch/version.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "torch/composed/composed.h"

namespace serac {
namespace {

constexpr size_t kHeader = 64;  // before every block, so that the data stay aligned to a cache line
constexpr size_t kLarge = size_t{256} << 10;
constexpr size_t kHugePage = size_t{2} << 20;
// Large blocks begin on pages; data that all began at the same place of a page would fight for the same lines of the cache.
constexpr size_t kPlaces = 64;

std::atomic<int64_t> gAllocated{0};
std::atomic<int64_t> gPeak{0};
std::atomic<int64_t> gLimit{0};

struct Header {
  size_t asked;
  void* block;  // where it begins
  size_t size;  // of the block where it is kept when freed, else 0
};

Header& headerOf(void* data) { return *reinterpret_cast<Header*>(static_cast<char*>(data) - kHeader); }

// Blocks by size. Sizes are rounded up to one of eight steps between powers of two, so that few sizes exist.
class Blocks {
 public:
  static size_t rounded(size_t n) {
    size_t step = kLarge / 8;
    while (step * 16 <= n) step *= 2;
    return (n + step - 1) / step * step;  // whole pages: the steps are at least of 32 KiB
  }

  // A block of at least `n` bytes (rounded), or null when none is kept; `n` becomes its size.
  void* take(size_t& n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = kept_.lower_bound(n);
    void* block = nullptr;
    if (found != kept_.end() && found->first <= n + n / 2) {
      block = found->second.back();
      n = found->first;
      found->second.pop_back();
      if (found->second.empty()) kept_.erase(found);
      keptBytes_ -= n;
    }
    used_ += n;
    if (used_ > most_) most_ = used_;
    if (!block) makeRoom();
    return block;
  }

  void put(void* block, size_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_ -= n;
    kept_[n].push_back(block);
    keptBytes_ += n;
  }

 private:
  // Before the system is asked for more: gives back the largest blocks while more lie about than the most ever in use, and a quarter.
  void makeRoom() {
    while (keptBytes_ > 0 && used_ + keptBytes_ > most_ + most_ / 4) {
      const auto last = std::prev(kept_.end());
      munmap(last->second.back(), last->first);
      keptBytes_ -= last->first;
      last->second.pop_back();
      if (last->second.empty()) kept_.erase(last);
    }
  }

  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;
  size_t keptBytes_ = 0, used_ = 0, most_ = 0;
};

Blocks& blocks() {
  static auto* const all = new Blocks;  // outlives the tensors of static objects
  return *all;
}

// From the system itself: malloc's own memory is left as it is without us. Blocks begin at huge pages where they have some.
void* newBlock(size_t n) {
  const size_t slack = n >= kHugePage ? kHugePage : 0;
  void* const mapped = mmap(nullptr, n + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK(mapped != MAP_FAILED, "not enough memory: ", n, " bytes were asked for");
  auto* block = static_cast<char*>(mapped);
  if (slack > 0) {
    const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(block) % kHugePage) % kHugePage;
    if (before > 0) munmap(block, before);
    if (before < slack) munmap(block + before + n, slack - before);
    block += before;
    madvise(block, n, MADV_HUGEPAGE);  // a wish: where it is not granted, pages are small
  }
  return block;
}

class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::Allocator* inner) : inner_(inner) { self_ = this; }

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(size_t n) override { return make(n); }
  void copy_data(void* to, const void* from, std::size_t n) const override { default_copy_data(to, from, n); }
#else
  c10::DataPtr allocate(size_t n) const override { return make(n); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

 private:
  c10::DataPtr make(size_t n) const {
    if (n == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    const auto bytes = static_cast<int64_t>(n);
    const int64_t limit = gLimit.load();
    TORCH_CHECK(limit == 0 || gAllocated.load() + bytes <= limit, "not enough memory: ", n, " bytes were asked for beside ", gAllocated.load(), ", with a limit of ", limit);
    char* data = nullptr;
    if (n >= kLarge && !composed()) {
      static std::atomic<size_t> next{0};
      size_t size = Blocks::rounded(n + kHeader * (1 + kPlaces));
      void* block = blocks().take(size);
      if (!block) block = newBlock(size);
      data = static_cast<char*>(block) + kHeader * (1 + next.fetch_add(1) % kPlaces);
      headerOf(data) = {n, block, size};
    } else {
      void* const block = inner_->allocate(n + kHeader).release_context();
      data = static_cast<char*>(block) + kHeader;
      headerOf(data) = {n, block, 0};
    }
    const int64_t now = gAllocated.fetch_add(bytes) + bytes;
    int64_t peak = gPeak.load();
    while (now > peak && !gPeak.compare_exchange_weak(peak, now)) {}
    return {data, data, &release, c10::Device(c10::kCPU)};
  }

  static void release(void* data) {
    if (!data) return;
    const Header header = headerOf(data);
    gAllocated -= static_cast<int64_t>(header.asked);
    if (header.size > 0)
      blocks().put(header.block, header.size);
    else
      self_->inner_->raw_deleter()(header.block);
  }

  c10::Allocator* inner_;
  static Allocator* self_;
};
Allocator* Allocator::self_ = nullptr;

}  // namespace

int64_t allocatedBytes() { return gAllocated.load(); }
int64_t peakBytes() { return gPeak.load(); }
void resetPeakBytes() { gPeak = gAllocated.load(); }
void limitBytes(int64_t most) { gLimit = most; }

void installAllocator() {
  static auto* const allocator = new Allocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(allocator, 255);
}

}  // namespace serac
