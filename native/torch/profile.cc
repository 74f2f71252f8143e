// Time by operator: how often each ran, and for how long without those that it called. Off until started; it costs about a microsecond a call.
#include <ATen/record_function.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "environment.h"

namespace serac {
namespace {

using Clock = std::chrono::steady_clock;

struct Entry {
  int64_t calls = 0;
  double self = 0;  // seconds
};
std::mutex gMutex;
std::map<std::string, Entry> gEntries;
std::optional<at::CallbackHandle> gCallback;

// One call under way; calls within it are its children, on the same thread.
struct Running final : at::ObserverContext {
  Running* parent;
  double children = 0;
  Clock::time_point start = Clock::now();
  explicit Running(Running* p) : parent(p) {}
};
thread_local Running* tRunning = nullptr;

std::unique_ptr<at::ObserverContext> onStart(const at::RecordFunction&) {
  auto running = std::make_unique<Running>(tRunning);
  tRunning = running.get();
  return running;
}

void onEnd(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* running = static_cast<Running*>(context);
  if (!running) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - running->start).count();
  tRunning = running->parent;
  if (running->parent) running->parent->children += seconds;
  const std::lock_guard<std::mutex> lock(gMutex);
  Entry& entry = gEntries[function.name()];
  entry.calls++;
  entry.self += seconds - running->children;
}

// profileStart(): forgets what was measured, and measures.
napi_value profileStart(napi_env env, napi_callback_info) {
  return guard(env, [&] {
    const std::lock_guard<std::mutex> lock(gMutex);
    gEntries.clear();
    if (!gCallback) gCallback = at::addGlobalCallback(at::RecordFunctionCallback(onStart, onEnd).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
    return undefined(env);
  });
}

// profileStop(): [name, calls, seconds, ...] of everything that ran since profileStart.
napi_value profileStop(napi_env env, napi_callback_info) {
  return guard(env, [&]() -> napi_value {
    std::map<std::string, Entry> entries;
    {
      const std::lock_guard<std::mutex> lock(gMutex);
      if (gCallback) at::removeCallback(*gCallback);
      gCallback.reset();
      entries.swap(gEntries);
    }
    napi_value list;
    check(env, napi_create_array(env, &list));
    uint32_t at = 0;
    for (const auto& [name, entry] : entries) {
      check(env, napi_set_element(env, list, at++, fromString(env, name)));
      check(env, napi_set_element(env, list, at++, fromDouble(env, static_cast<double>(entry.calls))));
      check(env, napi_set_element(env, list, at++, fromDouble(env, entry.self)));
    }
    return list;
  });
}

}  // namespace

void exportProfile(napi_env env, napi_value exports) {
  exportFunction(env, exports, "profileStart", profileStart);
  exportFunction(env, exports, "profileStop", profileStop);
}

}  // namespace serac
