// fbank for JS.
#include "media/fbank.h"

#include "media/dsp/fbank.h"
#include "media/task.h"

namespace serac {
namespace {

// The order is that of src/audio/fbank.ts; the values were checked there.
dsp::FbankSettings toSettings(napi_env env, napi_value v) {
  Bytes bytes = toBytes(env, v);
  if (bytes.size != 10 * sizeof(double)) throw std::runtime_error("internal: fbank takes 10 settings");
  double x[10];
  std::memcpy(x, bytes.data, sizeof(x));
  dsp::FbankSettings s;
  s.sampleRate = x[0];
  s.frameLength = x[1];
  s.frameShift = x[2];
  s.lowFreq = x[3];
  s.highFreq = x[4];
  s.preemphasis = x[5];
  s.numBins = static_cast<int>(x[6]);
  s.snipEdges = x[7] != 0;
  s.removeDcOffset = x[8] != 0;
  s.window = static_cast<dsp::Window>(static_cast<int>(x[9]));
  return s;
}

struct FbankTask : Task {
  std::vector<float> samples, features;
  dsp::FbankSettings settings;

  void run() override {
    dsp::FbankPlan& plan = dsp::planFor(settings);
    features.resize(plan.numFrames(samples.size()) * static_cast<size_t>(settings.numBins));
    plan.compute(samples.data(), samples.size(), features.data());
  }
  napi_value result(napi_env env) override { return fromFloats(env, features); }
};

// fbank(Float32Array, settings Float64Array): Promise<Float32Array (T * bins)>
napi_value fbank(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    auto task = std::make_unique<FbankTask>();
    task->samples = copyFloats(env, args[0]);
    task->settings = toSettings(env, args[1]);
    return launch(env, std::move(task));
  });
}

napi_value fbankSync(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    FbankTask task;
    task.samples = copyFloats(env, args[0]);
    task.settings = toSettings(env, args[1]);
    task.run();
    return task.result(env);
  });
}

}  // namespace

void exportFbank(napi_env env, napi_value exports) {
  exportFunction(env, exports, "fbank", fbank);
  exportFunction(env, exports, "fbankSync", fbankSync);
}

}  // namespace serac
