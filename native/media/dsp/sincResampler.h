// Band-limited interpolation with a Hann-windowed sinc, as torchaudio.functional.resample defines it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace serac::dsp {

class SincResampler {
 public:
  // from, to: Hz, whole numbers
  SincResampler(int64_t from, int64_t to, int lowpassFilterWidth, double rolloff);

  size_t outputLength(size_t n) const;
  void compute(const float* in, size_t n, float* out) const;

 private:
  struct Phase {
    int64_t first;  // sample of the input, relative to the block
    uint32_t begin, end;  // in taps_
  };
  int64_t from_, to_;  // in lowest terms
  std::vector<Phase> phases_;
  std::vector<float> taps_;
};

// Made once per setting and shared between threads.
std::shared_ptr<const SincResampler> resamplerFor(int64_t from, int64_t to, int lowpassFilterWidth, double rolloff);

}  // namespace serac::dsp
