// State of one JS environment (the main thread or a worker): its tensors by handle, its operators, its tape.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "napi/napi.h"

namespace serac {

// Objects by handle. A handle is slot + generation * 2^24: one that was freed is recognised, never followed.
template <typename T>
class Slots {
 public:
  double add(T value) {
    uint32_t slot;
    if (free_.empty()) {
      if (items_.size() > kSlotMask) throw std::runtime_error("more than 16 million live handles");
      slot = static_cast<uint32_t>(items_.size());
      items_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    Item& item = items_[slot];
    item.value = std::move(value);
    item.live = true;
    ++live_;
    return static_cast<double>(slot) + static_cast<double>(item.generation) * (kSlotMask + 1.0);
  }

  T* find(double handle) {
    if (!(handle > 0)) return nullptr;
    const auto h = static_cast<uint64_t>(handle);
    const uint64_t slot = h & kSlotMask;
    if (slot >= items_.size()) return nullptr;
    Item& item = items_[slot];
    return item.live && item.generation == (h >> 24) ? &item.value : nullptr;
  }

  // Freeing twice, or what was never there, does nothing: finalizers come late.
  void remove(double handle) {
    T* value = find(handle);
    if (!value) return;
    const uint32_t slot = static_cast<uint32_t>(static_cast<uint64_t>(handle) & kSlotMask);
    T last = std::move(*value);
    items_[slot].value = T();
    items_[slot].live = false;
    items_[slot].generation = (items_[slot].generation + 1) & 0xfffffff;
    if (items_[slot].generation == 0) items_[slot].generation = 1;
    free_.push_back(slot);
    --live_;
  }

  size_t live() const { return live_; }

 private:
  static constexpr uint64_t kSlotMask = (1u << 24) - 1;
  struct Item {
    T value{};
    uint64_t generation = 1;  // handle 0 is never given out
    bool live = false;
  };
  std::vector<Item> items_;
  std::vector<uint32_t> free_;
  size_t live_ = 0;
};

// How an argument is read from the tape.
enum class Kind : uint8_t { Tensor, Int, Float, Bool, Scalar, String, Device, Generator, ScalarType, Layout, MemoryFormat, Unsupported };

struct ArgumentType {
  Kind kind = Kind::Unsupported;
  bool optional = false;         // None is accepted
  bool list = false;             // a list of `kind`
  bool optionalElements = false; // Tensor?[]
  int32_t fixed = 0;             // int[2]: one number stands for two
  std::string text;              // as the schema spells it
};

struct Operator {
  c10::OperatorHandle handle;
  std::string name;
  std::vector<ArgumentType> arguments;
  bool returnsSelf = false;  // add_ and its like: the result is the first argument
};

// Typed arrays that zero-copy tensors looked into. Autograd may drop the last tensor on another thread, or after the
// environment has ended; the references are let go on the environment's own thread.
struct ReleaseQueue {
  std::mutex lock;
  std::vector<napi_ref> references;
};

struct Environment {
  Slots<at::Tensor> tensors;
  Slots<at::Generator> generators;
  std::vector<Operator> operators;
  std::unordered_map<std::string, uint32_t> operatorIds;
  double* tape = nullptr;
  size_t tapeSize = 0;
  napi_ref tapeReference = nullptr;
  int64_t reportedBytes = 0;  // what V8 was told
  std::shared_ptr<ReleaseQueue> released = std::make_shared<ReleaseQueue>();
};

Environment& environmentOf(napi_env env);
at::Tensor& tensorOf(Environment& e, double handle, const char* what = "tensor");


void exportCall(napi_env env, napi_value exports);
void exportData(napi_env env, napi_value exports);
void exportAutograd(napi_env env, napi_value exports);
void exportRandom(napi_env env, napi_value exports);
void exportRuntime(napi_env env, napi_value exports);
void exportProfile(napi_env env, napi_value exports);
void exportShare(napi_env env, napi_value exports);

}  // namespace serac
