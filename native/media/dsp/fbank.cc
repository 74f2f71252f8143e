#include "media/dsp/fbank.h"

#include <kiss_fftr.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <new>

namespace serac::dsp {
namespace {

constexpr double pi = 3.14159265358979323846;

double melOf(double hertz) { return 1127.0 * std::log(1.0 + hertz / 700.0); }

// Natural logarithm in single precision by the rational approximation that NumPy, and so lhotse, makes its filters with: P(m - 1) / Q(m - 1) of the
// mantissa m in [sqrt(1/2), sqrt(2)). At the foot of a triangle the last bit shows in the features, so a more exact one is further from the reference.
float logSingle(float v) {
  int e = 0;
  float m = std::frexp(v, &e);
  if (m < 0.70710678f) m *= 2, e -= 1;
  const float x = m - 1;
  float p = 2.589979117907922693523e-2f, q = 5.875095403124574342950e-3f;
  for (float c : {3.808837741388407920751e-1f, 1.480000633576506585156f, 2.112677543073053063722f, 9.999999999999998702752e-1f, 0.0f}) p = std::fma(p, x, c);
  for (float c : {1.546476374983906719538e-1f, 9.864942958518419960339e-1f, 2.453006071784736363091f, 2.612677543073109236779f, 1.0f}) q = std::fma(q, x, c);
  return std::fma(static_cast<float>(e), 0.693147180559945309417f, p / q);
}

std::vector<float> makeWindow(Window kind, size_t n) {
  std::vector<float> w(n);
  for (size_t i = 0; i < n; i++) {
    const double phase = n > 1 ? 2 * pi * static_cast<double>(i) / static_cast<double>(n - 1) : pi;
    const double hann = 0.5 - 0.5 * std::cos(phase);
    double value = 1;
    switch (kind) {
      case Window::povey:
        value = std::pow(hann, 0.85);
        break;
      case Window::hanning:
        value = hann;
        break;
      case Window::hamming:
        value = 0.54 - 0.46 * std::cos(phase);
        break;
      case Window::rectangular:
        break;
      case Window::blackman: {  // over n, not n - 1, as lhotse does
        const double a = 2 * pi * static_cast<double>(i) / static_cast<double>(n);
        value = 0.42 - 0.5 * std::cos(a) + 0.08 * std::cos(2 * a);
        break;
      }
    }
    w[i] = static_cast<float>(value);
  }
  return w;
}

// Sums in eight lanes, so that the compiler may use vector registers without reordering anything else.
template <typename F>
inline float sumLanes(size_t n, F&& term) {
  float lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (size_t k = 0; k < 8; k++) lanes[k] += term(i + k);
  }
  float rest = 0;
  for (; i < n; i++) rest += term(i);
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7])) + rest;
}

// Where a sample outside of the signal is taken from: mirrored at the edges, the edge sample repeated.
size_t mirror(int64_t i, int64_t n) {
  const int64_t period = 2 * n;
  i = ((i % period) + period) % period;
  return static_cast<size_t>(i < n ? i : period - 1 - i);
}

}  // namespace

struct FbankPlan::Fft {
  kiss_fftr_cfg plan;
  std::vector<kiss_fft_cpx> spectrum;
  explicit Fft(size_t n) : plan(kiss_fftr_alloc(static_cast<int>(n), 0, nullptr, nullptr)), spectrum(n / 2 + 1) {
    if (!plan) throw std::bad_alloc();
  }
  ~Fft() { kiss_fftr_free(plan); }
};

FbankPlan::FbankPlan(const FbankSettings& s) : settings(s) {
  length_ = static_cast<size_t>(std::floor(s.frameLength * s.sampleRate + 1e-9));
  shift_ = static_cast<size_t>(std::floor(s.frameShift * s.sampleRate + 1e-9));
  fftLength_ = 2;
  while (fftLength_ < length_) fftLength_ *= 2;
  window_ = makeWindow(s.window, length_);
  input_.assign(fftLength_, 0);
  power_.assign(fftLength_ / 2 + 1, 0);
  edge_.assign(length_, 0);
  fft_ = std::make_unique<Fft>(fftLength_);

  const double nyquist = s.sampleRate / 2;
  const double high = s.highFreq > 0 ? s.highFreq : nyquist + s.highFreq;
  // In single precision from here on, as the reference computes its filters: near the feet of a triangle the rounding shows.
  const float lowMel = static_cast<float>(melOf(s.lowFreq)), step = static_cast<float>((melOf(high) - melOf(s.lowFreq)) / (s.numBins + 1));
  const float binWidth = static_cast<float>(s.sampleRate / static_cast<double>(fftLength_));
  for (int m = 0; m < s.numBins; m++) {
    const float n = static_cast<float>(m);
    const float left = lowMel + n * step, center = lowMel + (n + 1) * step, right = lowMel + (n + 2) * step;
    Filter filter{0, static_cast<uint32_t>(weights_.size()), 0};
    // The bin of the Nyquist frequency takes no part.
    for (size_t k = 0; k < fftLength_ / 2; k++) {
      const float mel = 1127.0f * logSingle(1.0f + binWidth * static_cast<float>(k) / 700.0f);
      const float weight = std::min((mel - left) / (center - left), (right - mel) / (right - center));
      if (weight <= 0) continue;
      if (weights_.size() == filter.begin) filter.first = static_cast<uint32_t>(k);
      weights_.push_back(weight);
    }
    filter.end = static_cast<uint32_t>(weights_.size());
    filters_.push_back(filter);
  }
}

FbankPlan::~FbankPlan() = default;

size_t FbankPlan::numFrames(size_t n) const {
  if (settings.snipEdges) return n < length_ ? 0 : 1 + (n - length_) / shift_;
  return (n + shift_ / 2) / shift_;
}

void FbankPlan::frame(const float* x, float* out) {
  const size_t n = length_;
  const float mean = settings.removeDcOffset ? sumLanes(n, [&](size_t i) { return x[i]; }) / static_cast<float>(n) : 0;
  const float a = static_cast<float>(settings.preemphasis);
  float* y = input_.data();
  const float* w = window_.data();
  const float first = x[0] - mean;
  y[0] = (first - a * first) * w[0];
  for (size_t i = 1; i < n; i++) y[i] = ((x[i] - mean) - a * (x[i - 1] - mean)) * w[i];

  kiss_fft_cpx* spectrum = fft_->spectrum.data();
  kiss_fftr(fft_->plan, y, spectrum);
  float* p = power_.data();
  for (size_t k = 0; k < fftLength_ / 2; k++) p[k] = spectrum[k].r * spectrum[k].r + spectrum[k].i * spectrum[k].i;

  for (size_t m = 0; m < filters_.size(); m++) {
    const Filter& f = filters_[m];
    const float* weight = weights_.data() + f.begin;
    const float* power = p + f.first;
    const float energy = sumLanes(f.end - f.begin, [&](size_t k) { return weight[k] * power[k]; });
    out[m] = std::max(energy, std::numeric_limits<float>::epsilon());
  }
  for (size_t m = 0; m < filters_.size(); m++) out[m] = std::log(out[m]);
}

void FbankPlan::compute(const float* samples, size_t n, float* out) {
  const size_t frames = numFrames(n), bins = filters_.size();
  const int64_t size = static_cast<int64_t>(n);
  const int64_t lead = settings.snipEdges ? 0 : (static_cast<int64_t>(length_) - static_cast<int64_t>(shift_)) / 2;
  for (size_t t = 0; t < frames; t++) {
    const int64_t start = static_cast<int64_t>(t * shift_) - lead;
    const float* x = samples + start;
    if (start < 0 || start + static_cast<int64_t>(length_) > size) {
      for (size_t i = 0; i < length_; i++) edge_[i] = samples[mirror(start + static_cast<int64_t>(i), size)];
      x = edge_.data();
    }
    frame(x, out + t * bins);
  }
}

FbankPlan& planFor(const FbankSettings& settings) {
  thread_local std::list<std::unique_ptr<FbankPlan>> plans;  // most recently used first
  for (auto it = plans.begin(); it != plans.end(); ++it) {
    if ((*it)->settings == settings) {
      plans.splice(plans.begin(), plans, it);
      return *plans.front();
    }
  }
  plans.push_front(std::make_unique<FbankPlan>(settings));
  if (plans.size() > 8) plans.pop_back();
  return *plans.front();
}

}  // namespace serac::dsp
