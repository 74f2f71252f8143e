// The media addon: audio files, features, resampling, tokenizers. Must not know libtorch.
#include "media/audioFile.h"
#include "media/fbank.h"
#include "media/resample.h"
#include "media/sentencePiece.h"
#include "media/transcode.h"

NAPI_MODULE_INIT() {
  serac::guard(env, [&]() -> napi_value {
    serac::exportAudioFile(env, exports);
    serac::exportFbank(env, exports);
    serac::exportResample(env, exports);
    serac::exportSentencePiece(env, exports);
    serac::exportTranscode(env, exports);
    return nullptr;
  });
  return exports;
}
