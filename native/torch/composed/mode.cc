// The switch between our operators and their compositions.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "torch/composed/composed.h"

namespace serac {
namespace {

bool wanted() {
  const char* value = std::getenv("SERAC_COMPOSED");
  return value && std::string_view(value) == "1";
}
std::atomic<bool> gComposed{wanted()};

}  // namespace

bool composed() { return gComposed.load(std::memory_order_relaxed); }
bool setComposed(bool on) { return gComposed.exchange(on); }

}  // namespace serac
