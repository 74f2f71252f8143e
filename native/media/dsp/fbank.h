// Log mel filter banks as lhotse's Fbank computes them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace serac::dsp {

enum class Window { povey, hanning, hamming, rectangular, blackman };

struct FbankSettings {
  double sampleRate = 16000;
  double frameLength = 0.025;  // seconds
  double frameShift = 0.01;    // seconds
  double lowFreq = 20;         // Hz
  double highFreq = -400;      // Hz, below the Nyquist frequency where not positive
  double preemphasis = 0.97;
  int numBins = 80;
  bool snipEdges = false;
  bool removeDcOffset = true;
  Window window = Window::povey;

  bool operator==(const FbankSettings&) const = default;
};

// The tables of one setting, and room to work in: for one thread at a time.
class FbankPlan {
 public:
  explicit FbankPlan(const FbankSettings& settings);
  ~FbankPlan();
  FbankPlan(const FbankPlan&) = delete;
  FbankPlan& operator=(const FbankPlan&) = delete;

  size_t numFrames(size_t numSamples) const;
  // out: (numFrames(n), numBins)
  void compute(const float* samples, size_t n, float* out);

  const FbankSettings settings;

 private:
  void frame(const float* x, float* out);

  struct Filter {
    uint32_t first;  // bin of the spectrum
    uint32_t begin, end;  // in weights_
  };
  size_t length_, shift_, fftLength_;
  std::vector<float> window_, weights_;
  std::vector<Filter> filters_;
  std::vector<float> edge_, input_, power_;
  struct Fft;
  std::unique_ptr<Fft> fft_;
};

// This thread's plan for these settings; made once.
FbankPlan& planFor(const FbankSettings& settings);

}  // namespace serac::dsp
