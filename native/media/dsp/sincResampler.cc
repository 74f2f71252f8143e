#include "media/dsp/sincResampler.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numeric>
#include <tuple>

namespace serac::dsp {

SincResampler::SincResampler(int64_t from, int64_t to, int lowpassFilterWidth, double rolloff) {
  const int64_t divisor = std::gcd(from, to);
  from_ = from / divisor;
  to_ = to / divisor;
  constexpr double pi = 3.14159265358979323846;
  const double cutoff = static_cast<double>(std::min(from_, to_)) * rolloff;
  const int64_t width = static_cast<int64_t>(std::ceil(lowpassFilterWidth * static_cast<double>(from_) / cutoff));
  phases_.reserve(static_cast<size_t>(to_));
  for (int64_t p = 0; p < to_; p++) {
    const double center = static_cast<double>(p) * static_cast<double>(from_) / static_cast<double>(to_);
    const int64_t first = std::max<int64_t>(-width, static_cast<int64_t>(std::floor(center)) - width);
    const int64_t last = std::min<int64_t>(width + from_ - 1, static_cast<int64_t>(std::ceil(center)) + width);
    Phase phase{first, static_cast<uint32_t>(taps_.size()), 0};
    for (int64_t k = first; k <= last; k++) {
      double t = (static_cast<double>(-p) / static_cast<double>(to_) + static_cast<double>(k) / static_cast<double>(from_)) * cutoff;
      t = std::clamp(t, -static_cast<double>(lowpassFilterWidth), static_cast<double>(lowpassFilterWidth));
      const double hann = std::cos(t * pi / lowpassFilterWidth / 2);
      const double x = t * pi;
      const double sinc = x == 0 ? 1 : std::sin(x) / x;
      taps_.push_back(static_cast<float>(sinc * hann * hann * (cutoff / static_cast<double>(from_))));
    }
    phase.end = static_cast<uint32_t>(taps_.size());
    phases_.push_back(phase);
  }
}

size_t SincResampler::outputLength(size_t n) const {
  const uint64_t from = static_cast<uint64_t>(from_);
  return static_cast<size_t>((static_cast<uint64_t>(to_) * n + from - 1) / from);
}

void SincResampler::compute(const float* in, size_t n, float* out) const {
  const size_t total = outputLength(n);
  const int64_t size = static_cast<int64_t>(n);
  int64_t block = 0;  // first input sample of the block
  size_t p = 0;
  for (size_t j = 0; j < total; j++) {
    const Phase& phase = phases_[p];
    const float* taps = taps_.data() + phase.begin;
    int64_t count = phase.end - phase.begin;
    int64_t start = block + phase.first;
    if (start < 0) {
      taps -= start;
      count += start;
      start = 0;
    }
    count = std::min(count, size - start);
    const float* x = in + start;
    float a = 0, b = 0, c = 0, d = 0;
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
      a += taps[k] * x[k];
      b += taps[k + 1] * x[k + 1];
      c += taps[k + 2] * x[k + 2];
      d += taps[k + 3] * x[k + 3];
    }
    for (; k < count; k++) a += taps[k] * x[k];
    out[j] = (a + b) + (c + d);
    if (++p == phases_.size()) {
      p = 0;
      block += from_;
    }
  }
}

std::shared_ptr<const SincResampler> resamplerFor(int64_t from, int64_t to, int lowpassFilterWidth, double rolloff) {
  using Key = std::tuple<int64_t, int64_t, int, double>;
  static std::mutex mutex;
  static std::list<std::pair<Key, std::shared_ptr<const SincResampler>>> made;  // most recently used first
  const int64_t divisor = std::gcd(from, to);
  const Key key{from / divisor, to / divisor, lowpassFilterWidth, rolloff};
  {
    std::lock_guard lock(mutex);
    for (auto it = made.begin(); it != made.end(); ++it) {
      if (it->first == key) {
        made.splice(made.begin(), made, it);
        return it->second;
      }
    }
  }
  auto resampler = std::make_shared<const SincResampler>(from, to, lowpassFilterWidth, rolloff);
  std::lock_guard lock(mutex);
  made.emplace_front(key, resampler);
  if (made.size() > 32) made.pop_back();
  return resampler;
}

}  // namespace serac::dsp
