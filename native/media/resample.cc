// Resampling for JS: libsoxr for reading audio, the windowed sinc for training.
#include "media/resample.h"

#include <soxr.h>

#include <cmath>

#include "media/dsp/sincResampler.h"
#include "media/task.h"

namespace serac {
namespace {

struct SoxrTask : Task {
  std::vector<float> in, out;
  double from = 0, to = 0;

  void run() override {
    out.resize(static_cast<size_t>(std::ceil(static_cast<double>(in.size()) * to / from - 1e-9)));
    if (in.empty()) return;
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    size_t used = 0, made = 0;
    soxr_error_t error = soxr_oneshot(from, to, 1, in.data(), in.size(), &used, out.data(), out.size(), &made, nullptr, &quality, nullptr);
    if (error) throw std::runtime_error(std::string("libsoxr: ") + soxr_strerror(error));
    out.resize(made);
  }
  napi_value result(napi_env env) override { return fromFloats(env, out); }
};

struct SincTask : Task {
  std::vector<float> in, out;
  int64_t from = 0, to = 0;
  int width = 6;
  double rolloff = 0.99;

  void run() override {
    auto resampler = dsp::resamplerFor(from, to, width, rolloff);
    out.resize(resampler->outputLength(in.size()));
    resampler->compute(in.data(), in.size(), out.data());
  }
  napi_value result(napi_env env) override { return fromFloats(env, out); }
};

// resampleSoxr(Float32Array, from, to): Promise<Float32Array>
napi_value resampleSoxr(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<3> args(env, info);
    auto task = std::make_unique<SoxrTask>();
    task->in = copyFloats(env, args[0]);
    task->from = toDouble(env, args[1]);
    task->to = toDouble(env, args[2]);
    return launch(env, std::move(task));
  });
}

// resampleSinc(Float32Array, from, to, lowpassFilterWidth, rolloff): Promise<Float32Array>
napi_value resampleSinc(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<5> args(env, info);
    auto task = std::make_unique<SincTask>();
    task->in = copyFloats(env, args[0]);
    task->from = toInt(env, args[1]);
    task->to = toInt(env, args[2]);
    task->width = static_cast<int>(toInt(env, args[3]));
    task->rolloff = toDouble(env, args[4]);
    return launch(env, std::move(task));
  });
}

}  // namespace

void exportResample(napi_env env, napi_value exports) {
  exportFunction(env, exports, "resampleSoxr", resampleSoxr);
  exportFunction(env, exports, "resampleSinc", resampleSinc);
}

}  // namespace serac
