// FLAC of 16-bit samples into memory, straight from libFLAC: without libsndfile's conversions.
#pragma once
#include <FLAC/stream_encoder.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace serac {

class FlacEncoder {
 public:
  // `frames` is what will be written. Throws CodedError AUDIO_UNWRITABLE for rates and channels that FLAC has not.
  FlacEncoder(int rate, int channels, uint64_t frames, std::vector<uint8_t>& out);

  // Interleaved samples.
  void write(const int16_t* samples, size_t frames);
  // Completes the header.
  void finish();

 private:
  struct Free {
    void operator()(FLAC__StreamEncoder* encoder) const { FLAC__stream_encoder_delete(encoder); }
  };
  [[noreturn]] void fail() const;

  std::unique_ptr<FLAC__StreamEncoder, Free> encoder_;
  std::vector<uint8_t>& out_;
  size_t position_ = 0;
  size_t channels_;
  std::vector<FLAC__int32> wide_;

  static FLAC__StreamEncoderWriteStatus onWrite(const FLAC__StreamEncoder*, const FLAC__byte buffer[], size_t bytes, uint32_t, uint32_t, void* self);
  static FLAC__StreamEncoderSeekStatus onSeek(const FLAC__StreamEncoder*, FLAC__uint64 offset, void* self);
  static FLAC__StreamEncoderTellStatus onTell(const FLAC__StreamEncoder*, FLAC__uint64* offset, void* self);
};

}  // namespace serac
