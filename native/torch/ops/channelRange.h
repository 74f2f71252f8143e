// The Balancer's arithmetic for one channel: what is added to a gradient, from the channel's sums. See balancer.cc.
#pragma once
#include <algorithm>
#include <cmath>

namespace serac {

constexpr double kTinyLevel = 1e-20;

struct Range {
  double minMean, maxMean, minRms, maxRms, gradScale;
};

struct Line {  // |grad| * (a x + b) is added
  float a, b;
};

// `sum` and `squares` are those of x - pivot.
inline Line lineOf(double pivot, double sum, double squares, double n, const Range& range) {
  const double shifted = sum / n, m = pivot + shifted;
  const double variance = std::max(squares / n - shifted * shifted, 0.0), v = variance + m * m;
  const double sd = std::sqrt(std::max(variance, kTinyLevel)), rms = std::sqrt(std::max(v, kTinyLevel));
  const double r = m / sd;
  const double s = r < range.minMean ? -1 : r > range.maxMean ? 1 : 0;
  const double t = rms < range.minRms ? -1 : rms > range.maxRms ? 1 : 0;
  const double cubed = variance >= kTinyLevel ? 1 / (sd * sd * sd) : 0;  // no gradient through a clamped value
  const double a = (-s * m * cubed + (v >= kTinyLevel ? t / (rms * rms) : 0)) / n;
  const double b = s * (1 / sd + m * m * cubed) / n;
  const double level = std::sqrt(std::max(a * a * v + 2 * a * b * m + b * b, 0.0));
  const double scale = range.gradScale / std::max(level, kTinyLevel);
  return {static_cast<float>(a * scale), static_cast<float>(b * scale)};
}

}  // namespace serac
