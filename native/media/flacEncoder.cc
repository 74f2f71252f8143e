#include "media/flacEncoder.h"

#include <cstring>
#include <string>

#include "napi/napi.h"

namespace serac {
namespace {

// That of libsndfile and of `flac`.
constexpr uint32_t level = 5;

}  // namespace

FLAC__StreamEncoderWriteStatus FlacEncoder::onWrite(const FLAC__StreamEncoder*, const FLAC__byte buffer[], size_t bytes, uint32_t, uint32_t, void* self) {
  FlacEncoder& e = *static_cast<FlacEncoder*>(self);
  try {
    if (e.position_ == e.out_.size()) {
      e.out_.insert(e.out_.end(), buffer, buffer + bytes);
    } else {
      if (e.position_ + bytes > e.out_.size()) e.out_.resize(e.position_ + bytes);
      std::memcpy(e.out_.data() + e.position_, buffer, bytes);
    }
  } catch (...) {  // no memory: an exception must not pass through C
    return FLAC__STREAM_ENCODER_WRITE_STATUS_FATAL_ERROR;
  }
  e.position_ += bytes;
  return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

FLAC__StreamEncoderSeekStatus FlacEncoder::onSeek(const FLAC__StreamEncoder*, FLAC__uint64 offset, void* self) {
  FlacEncoder& e = *static_cast<FlacEncoder*>(self);
  if (offset > e.out_.size()) return FLAC__STREAM_ENCODER_SEEK_STATUS_ERROR;
  e.position_ = static_cast<size_t>(offset);
  return FLAC__STREAM_ENCODER_SEEK_STATUS_OK;
}

FLAC__StreamEncoderTellStatus FlacEncoder::onTell(const FLAC__StreamEncoder*, FLAC__uint64* offset, void* self) {
  *offset = static_cast<FlacEncoder*>(self)->position_;
  return FLAC__STREAM_ENCODER_TELL_STATUS_OK;
}

FlacEncoder::FlacEncoder(int rate, int channels, uint64_t frames, std::vector<uint8_t>& out)
    : encoder_(FLAC__stream_encoder_new()), out_(out), channels_(static_cast<size_t>(channels)) {
  if (!encoder_) throw std::bad_alloc();
  FLAC__StreamEncoder* e = encoder_.get();
  FLAC__stream_encoder_set_channels(e, static_cast<uint32_t>(channels));
  FLAC__stream_encoder_set_bits_per_sample(e, 16);
  FLAC__stream_encoder_set_sample_rate(e, static_cast<uint32_t>(rate));
  FLAC__stream_encoder_set_compression_level(e, level);
  FLAC__stream_encoder_set_total_samples_estimate(e, frames);
  const FLAC__StreamEncoderInitStatus status = FLAC__stream_encoder_init_stream(e, onWrite, onSeek, onTell, nullptr, this);
  if (status == FLAC__STREAM_ENCODER_INIT_STATUS_ENCODER_ERROR) fail();
  if (status != FLAC__STREAM_ENCODER_INIT_STATUS_OK) {
    throw CodedError("AUDIO_UNWRITABLE", "flac at " + std::to_string(rate) + " Hz with " + std::to_string(channels) + " channels cannot be written");
  }
}

void FlacEncoder::write(const int16_t* samples, size_t frames) {
  wide_.assign(samples, samples + frames * channels_);
  if (!FLAC__stream_encoder_process_interleaved(encoder_.get(), wide_.data(), static_cast<uint32_t>(frames))) fail();
}

void FlacEncoder::finish() {
  if (!FLAC__stream_encoder_finish(encoder_.get())) fail();
}

void FlacEncoder::fail() const {
  throw CodedError("AUDIO_UNWRITABLE", std::string("flac: ") + FLAC__StreamEncoderStateString[FLAC__stream_encoder_get_state(encoder_.get())]);
}

}  // namespace serac
