// A part of an audio file, at another rate and in another codec, as the bytes of a file: one task, off the main thread or in a thread of the caller's.
#include "media/transcode.h"

#include <soxr.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "media/flacEncoder.h"
#include "media/soundFile.h"
#include "media/task.h"

namespace serac {
namespace {

// A file that libsndfile writes to memory. Encoders go back to mend their headers.
struct Output {
  std::vector<uint8_t> bytes;
  sf_count_t position = 0;
};
sf_count_t outputLength(void* user) { return static_cast<sf_count_t>(static_cast<Output*>(user)->bytes.size()); }
sf_count_t outputSeek(sf_count_t offset, int whence, void* user) {
  Output& out = *static_cast<Output*>(user);
  const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? out.position : outputLength(user);
  out.position = std::max<sf_count_t>(0, base + offset);
  return out.position;
}
sf_count_t outputRead(void* into, sf_count_t count, void* user) {
  Output& out = *static_cast<Output*>(user);
  count = std::clamp<sf_count_t>(outputLength(user) - out.position, 0, count);
  if (count > 0) std::memcpy(into, out.bytes.data() + out.position, static_cast<size_t>(count));
  out.position += count;
  return count;
}
sf_count_t outputWrite(const void* from, sf_count_t count, void* user) {
  Output& out = *static_cast<Output*>(user);
  const size_t end = static_cast<size_t>(out.position + count);
  if (end > out.bytes.size()) out.bytes.resize(end);
  std::memcpy(out.bytes.data() + out.position, from, static_cast<size_t>(count));
  out.position += count;
  return count;
}
sf_count_t outputTell(void* user) { return static_cast<Output*>(user)->position; }

// serac's name for the codec that a file is in, to write more of the same; WAV for what cannot be written.
std::string codecOf(int format) {
  switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC:
      return "flac";
    case SF_FORMAT_OGG:
      return (format & SF_FORMAT_SUBMASK) == SF_FORMAT_OPUS ? "opus" : (format & SF_FORMAT_SUBMASK) == SF_FORMAT_VORBIS ? "ogg" : "flac";
    case SF_FORMAT_MPEG:
      return "mp3";
    default:
      return "wav";
  }
}

// Writes samples in a format to memory.
class Encoder {
 public:
  int bits = 0;  // 0 where samples are not written as integers
  SNDFILE* file = nullptr;

  // Throws CodedError AUDIO_UNWRITABLE.
  Encoder(const std::string& format, int rate, int channels, size_t frames, Output& out, double level = -1) {
    SF_INFO wanted{};
    wanted.format = formatOf(format, bits);
    wanted.samplerate = rate;
    wanted.channels = channels;
    what_ = format + " at " + std::to_string(rate) + " Hz with " + std::to_string(channels) + " channels";
    if (!sf_format_check(&wanted)) throw CodedError("AUDIO_UNWRITABLE", what_ + " cannot be written");
    out.bytes.reserve(std::min<size_t>(frames, 1 << 24) * static_cast<size_t>(channels) * 2 + 4096);
    static SF_VIRTUAL_IO io = {outputLength, outputSeek, outputRead, outputWrite, outputTell};
    file = sf_open_virtual(&io, SFM_WRITE, &wanted, &out);
    if (!file) throw CodedError("AUDIO_UNWRITABLE", what_ + " cannot be written: " + sf_strerror(nullptr));
    if (level >= 0 && sf_command(file, SFC_SET_COMPRESSION_LEVEL, &level, sizeof(level)) != SF_TRUE) throw CodedError("AUDIO_UNWRITABLE", what_ + " has no level of compression");
  }
  ~Encoder() {
    if (file) sf_close(file);
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // `why` is "" where all is well.
  void check(const std::string& why) const {
    if (!why.empty()) throw CodedError("AUDIO_UNWRITABLE", what_ + ": " + why);
  }
  void finish() {
    SNDFILE* open = file;
    file = nullptr;
    check(sf_close(open) == 0 ? "" : "the file could not be finished");
  }

 private:
  std::string what_;
};

struct TranscodeTask : Task {
  Source source;
  std::string format;                // "" for that of the source
  double offset = 0, duration = -1;  // seconds; a negative duration reads to the end
  int targetRate = 0;                // 0 keeps the rate
  double level = -1;                 // of compression, 0 to 1 for the most; negative is the codec's own
  SF_INFO info{};
  size_t frames = 0;  // of each channel
  Output out;

  void run() override {
    SoundFile sound(source);
    info = sound.info;
    if (sound.cut) throw CodedError("AUDIO_TRUNCATED", "the header promises more samples than the file holds");
    if (info.frames == 0) throw CodedError("AUDIO_EMPTY", "the file holds no samples");
    if (format.empty()) format = codecOf(info.format);
    if (targetRate == 0) targetRate = info.samplerate;
    const sf_count_t wanted = seek(sound);
    const int encoding = info.format & SF_FORMAT_SUBMASK;
    int bits = 0;
    formatOf(format, bits);
    if (bits >= 16 && targetRate == info.samplerate && (encoding == SF_FORMAT_PCM_16 || encoding == SF_FORMAT_PCM_S8 || encoding == SF_FORMAT_PCM_U8)) {
      copy(sound, wanted);
      return;
    }
    std::vector<std::vector<float>> channels = read(sound, wanted);
    if (targetRate != info.samplerate) resample(channels);
    frames = channels[0].size();
    Encoder encoder(format, targetRate, info.channels, frames, out, level);
    encoder.check(writeFrames(encoder.file, encoder.bits, channels));
    encoder.finish();
  }

  // Goes to the first sample; returns how many are wanted.
  sf_count_t seek(SoundFile& sound) const {
    // Truncated, as NeMo's converter counts.
    const sf_count_t start = static_cast<sf_count_t>(offset * info.samplerate);
    if (start >= info.frames) {
      throw CodedError("AUDIO_BAD_RANGE", "offset " + std::to_string(offset) + " s is at or after the end, " + std::to_string(static_cast<double>(info.frames) / info.samplerate) + " s");
    }
    if (start > 0 && sf_seek(sound.file, start, SEEK_SET) != start) throw CodedError("AUDIO_UNREADABLE", std::string("cannot seek: ") + sf_strerror(sound.file));
    sf_count_t wanted = info.frames - start;
    if (duration >= 0) wanted = std::min(wanted, static_cast<sf_count_t>(duration * info.samplerate));
    if (wanted <= 0) throw CodedError("AUDIO_BAD_RANGE", "a part of " + std::to_string(duration) + " s is shorter than a sample");
    return wanted;
  }

  static CodedError truncated(sf_count_t wanted, sf_count_t got) {
    return CodedError("AUDIO_TRUNCATED", std::to_string(wanted) + " samples are promised, but only " + std::to_string(got) + " could be decoded");
  }

  // Samples of at most 16 bits that go to an integer codec at their own rate: floats would cost time and change nothing. A block at a time, which stays in the cache.
  void copy(SoundFile& sound, sf_count_t wanted) {
    if (format == "flac") {
      out.bytes.reserve(static_cast<size_t>(std::min<sf_count_t>(wanted, 1 << 24)) * static_cast<size_t>(info.channels) + 4096);
      FlacEncoder encoder(targetRate, info.channels, static_cast<uint64_t>(wanted), out.bytes);
      copyTo(sound, wanted, [&](const short* samples, sf_count_t count) { encoder.write(samples, static_cast<size_t>(count)); });
      encoder.finish();
    } else {
      Encoder encoder(format, targetRate, info.channels, static_cast<size_t>(wanted), out, level);
      copyTo(sound, wanted, [&](const short* samples, sf_count_t count) {
        encoder.check(sf_writef_short(encoder.file, samples, count) == count ? "" : sf_strerror(encoder.file));
      });
      encoder.finish();
    }
    frames = static_cast<size_t>(wanted);
  }

  template <typename Write>
  void copyTo(SoundFile& sound, sf_count_t wanted, Write write) const {
    const sf_count_t step = std::max(1, (1 << 14) / info.channels);
    std::vector<short> block(static_cast<size_t>(step) * static_cast<size_t>(info.channels));
    for (sf_count_t left = wanted; left > 0;) {
      const sf_count_t got = sf_readf_short(sound.file, block.data(), std::min(left, step));
      if (got <= 0) throw truncated(wanted, wanted - left);
      write(block.data(), got);
      left -= got;
    }
  }

  std::vector<std::vector<float>> read(SoundFile& sound, sf_count_t wanted) const {
    const size_t n = static_cast<size_t>(info.channels);
    std::vector<std::vector<float>> channels(n);
    for (auto& c : channels) c.reserve(static_cast<size_t>(std::min<sf_count_t>(wanted, 1 << 22)));  // a header may lie about the length
    const sf_count_t step = 1 << 14;
    std::vector<float> block(static_cast<size_t>(step) * n);
    sf_count_t left = wanted;
    while (left > 0) {
      const sf_count_t got = sf_readf_float(sound.file, block.data(), std::min(left, step));
      if (got <= 0) break;
      const size_t count = static_cast<size_t>(got);
      for (size_t c = 0; c < n; c++) {
        const size_t old = channels[c].size();
        channels[c].resize(old + count);
        float* to = channels[c].data() + old;
        for (size_t i = 0; i < count; i++) to[i] = block[i * n + c];
      }
      left -= got;
    }
    const int container = info.format & SF_FORMAT_TYPEMASK;
    if (channels[0].empty() || (left > 0 && (sf_error(sound.file) != SF_ERR_NO_ERROR || (container != SF_FORMAT_OGG && container != SF_FORMAT_MPEG)))) {
      throw truncated(wanted, wanted - left);
    }
    float sum = 0;
    for (const auto& c : channels)
      for (float x : c) sum += x * 0.0f;
    if (sum != 0.0f) throw CodedError("AUDIO_NOT_FINITE", "the file holds samples that are NaN or infinite");
    return channels;
  }

  void resample(std::vector<std::vector<float>>& channels) const {
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    for (auto& c : channels) {
      const double ratio = static_cast<double>(targetRate) / info.samplerate;
      std::vector<float> made(static_cast<size_t>(std::ceil(static_cast<double>(c.size()) * ratio - 1e-9)));
      size_t used = 0, count = 0;
      soxr_error_t error = soxr_oneshot(info.samplerate, targetRate, 1, c.data(), c.size(), &used, made.data(), made.size(), &count, nullptr, &quality, nullptr);
      if (error) throw std::runtime_error(std::string("libsoxr: ") + soxr_strerror(error));
      made.resize(count);
      c = std::move(made);
    }
  }

  napi_value result(napi_env env) override {
    napi_value value = object(env);
    set(env, value, "bytes", fromVector(env, napi_uint8_array, out.bytes));
    set(env, value, "format", fromString(env, format));
    set(env, value, "sampleRate", fromDouble(env, targetRate));
    set(env, value, "frames", fromDouble(env, static_cast<double>(frames)));
    return value;
  }
};

std::unique_ptr<TranscodeTask> toTask(napi_env env, napi_callback_info info) {
  Args<6> args(env, info);
  auto task = std::make_unique<TranscodeTask>();
  task->source = toSource(env, args[0]);
  task->offset = toDouble(env, args[1]);
  task->duration = toDouble(env, args[2]);
  task->targetRate = static_cast<int>(toInt(env, args[3]));
  task->format = toString(env, args[4]);
  task->level = toDouble(env, args[5]);
  return task;
}

// transcode(path | bytes, offsetSeconds, durationSeconds | -1, sampleRate | 0, format | "", level | -1): Promise<{ bytes, format, sampleRate, frames }>
napi_value transcode(napi_env env, napi_callback_info info) {
  return guard(env, [&] { return launch(env, toTask(env, info)); });
}

// The same in the calling thread.
napi_value transcodeSync(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    auto task = toTask(env, info);
    task->run();
    return task->result(env);
  });
}

}  // namespace

void exportTranscode(napi_env env, napi_value exports) {
  exportFunction(env, exports, "transcode", transcode);
  exportFunction(env, exports, "transcodeSync", transcodeSync);
}

}  // namespace serac
