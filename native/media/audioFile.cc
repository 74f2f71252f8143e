// Audio files by libsndfile.
#include "media/audioFile.h"

#include <fcntl.h>
#include <sndfile.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "media/soundFile.h"
#include "media/task.h"

namespace serac {
namespace {

// Seconds to samples as lhotse counts them: half up, after rounding away the noise of the product.
sf_count_t toFrames(double seconds, int rate) { return static_cast<sf_count_t>(std::floor(std::round(seconds * rate * 1e8) / 1e8 + 0.5)); }

struct DecodeTask : Task {
  Source source;
  double offset = 0, duration = -1;  // seconds; a negative duration reads to the end
  int rate = 0;
  std::vector<std::vector<float>> channels;

  void run() override {
    SoundFile sound(source);
    const SF_INFO& info = sound.info;
    rate = info.samplerate;
    if (sound.cut) throw CodedError("AUDIO_TRUNCATED", "the header promises more samples than the file holds");
    if (info.frames == 0) throw CodedError("AUDIO_EMPTY", "the file holds no samples");
    const sf_count_t start = toFrames(offset, rate);
    if (start >= info.frames) {
      throw CodedError("AUDIO_BAD_RANGE", "offset " + std::to_string(offset) + " s is at or after the end, " + std::to_string(static_cast<double>(info.frames) / rate) + " s");
    }
    if (start > 0 && sf_seek(sound.file, start, SEEK_SET) != start) throw CodedError("AUDIO_UNREADABLE", std::string("cannot seek: ") + sf_strerror(sound.file));
    sf_count_t left = info.frames - start;
    if (duration >= 0) left = std::min(left, toFrames(duration, rate));
    const sf_count_t wanted = left;
    channels.resize(static_cast<size_t>(info.channels));
    // A header may lie about the length: room grows with what is really there.
    for (auto& c : channels) c.reserve(static_cast<size_t>(std::min<sf_count_t>(left, 1 << 22)));
    const size_t n = channels.size();
    const sf_count_t step = 1 << 14;
    std::vector<float> block(static_cast<size_t>(step) * n);
    bool finite = true;
    while (left > 0) {
      const sf_count_t got = sf_readf_float(sound.file, block.data(), std::min(left, step));
      if (got <= 0) break;
      const size_t count = static_cast<size_t>(got);
      float sum = 0;  // of zeros, unless something is not finite
      for (size_t i = 0; i < count * n; i++) sum += block[i] * 0.0f;
      finite = finite && sum == 0.0f;
      for (size_t c = 0; c < n; c++) {
        const size_t old = channels[c].size();
        channels[c].resize(old + count);
        float* out = channels[c].data() + old;
        for (size_t i = 0; i < count; i++) out[i] = block[i * n + c];
      }
      left -= got;
    }
    const int error = sf_error(sound.file);
    const int format = info.format & SF_FORMAT_TYPEMASK;
    // Lengths of compressed streams are guesses in some files; FLAC and the PCM containers know theirs.
    if (left > 0 && (error != SF_ERR_NO_ERROR || (format != SF_FORMAT_OGG && format != SF_FORMAT_MPEG))) {
      throw CodedError("AUDIO_TRUNCATED", "the header promises " + std::to_string(wanted) + " samples, but only " + std::to_string(wanted - left) + " could be decoded");
    }
    if (channels[0].empty() && wanted > 0) throw CodedError("AUDIO_TRUNCATED", "no samples could be decoded");
    if (!finite) throw CodedError("AUDIO_NOT_FINITE", "the file holds samples that are NaN or infinite");
  }

  napi_value result(napi_env env) override {
    napi_value value = object(env), list;
    check(env, napi_create_array_with_length(env, channels.size(), &list));
    for (size_t c = 0; c < channels.size(); c++) check(env, napi_set_element(env, list, static_cast<uint32_t>(c), fromFloats(env, channels[c])));
    set(env, value, "sampleRate", fromDouble(env, rate));
    set(env, value, "channels", list);
    return value;
  }
};

struct InfoTask : Task {
  Source source;
  SF_INFO info{};
  std::string format;

  void run() override {
    SoundFile sound(source);
    info = sound.info;
    if (sound.cut) throw CodedError("AUDIO_TRUNCATED", "the header promises more samples than the file holds");
    SF_FORMAT_INFO name{};
    auto describe = [&](int code) {
      name.format = code;
      return sf_command(nullptr, SFC_GET_FORMAT_INFO, &name, sizeof(name)) == 0 && name.name ? std::string(name.name) : std::string("unknown");
    };
    format = describe(info.format & SF_FORMAT_TYPEMASK) + ", " + describe(info.format & SF_FORMAT_SUBMASK);
  }
  napi_value result(napi_env env) override {
    napi_value value = object(env);
    set(env, value, "sampleRate", fromDouble(env, info.samplerate));
    set(env, value, "channels", fromDouble(env, info.channels));
    set(env, value, "frames", fromDouble(env, static_cast<double>(info.frames)));
    set(env, value, "durationSeconds", fromDouble(env, static_cast<double>(info.frames) / info.samplerate));
    set(env, value, "format", fromString(env, format));
    return value;
  }
};

struct EncodeTask : Task {
  std::string path, format;
  int rate = 0;
  std::vector<std::vector<float>> channels;

  void run() override {
    SF_INFO info{};
    int bits = 0;
    info.format = formatOf(format, bits);
    info.samplerate = rate;
    info.channels = static_cast<int>(channels.size());
    if (!sf_format_check(&info)) throw CodedError("AUDIO_UNWRITABLE", format + " does not take " + std::to_string(info.channels) + " channels at " + std::to_string(rate) + " Hz");
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) throw CodedError("AUDIO_UNWRITABLE", std::strerror(errno));
    SNDFILE* file = sf_open_fd(fd, SFM_WRITE, &info, 0);
    std::string failure;
    if (!file) {
      failure = sf_strerror(nullptr);
    } else {
      failure = writeFrames(file, bits, channels);
      if (sf_close(file) != 0 && failure.empty()) failure = "the file could not be finished";
    }
    if (fsync(fd) != 0 && failure.empty()) failure = std::strerror(errno);
    close(fd);
    if (!failure.empty()) throw CodedError("AUDIO_UNWRITABLE", failure);
  }

  napi_value result(napi_env env) override { return undefined(env); }
};

// decode(path | bytes, offsetSeconds, durationSeconds | -1): Promise<{ sampleRate, channels }>
napi_value decode(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<3> args(env, info);
    auto task = std::make_unique<DecodeTask>();
    task->source = toSource(env, args[0]);
    task->offset = toDouble(env, args[1]);
    task->duration = toDouble(env, args[2]);
    return launch(env, std::move(task));
  });
}

// audioInfo(path | bytes): Promise<{ sampleRate, channels, frames, durationSeconds, format }>
napi_value audioInfo(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<1> args(env, info);
    auto task = std::make_unique<InfoTask>();
    task->source = toSource(env, args[0]);
    return launch(env, std::move(task));
  });
}

// encode(path, format, sampleRate, Float32Array[]): Promise<void>
napi_value encode(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<4> args(env, info);
    auto task = std::make_unique<EncodeTask>();
    task->path = toString(env, args[0]);
    task->format = toString(env, args[1]);
    task->rate = static_cast<int>(toInt(env, args[2]));
    uint32_t count = 0;
    check(env, napi_get_array_length(env, args[3], &count));
    for (uint32_t c = 0; c < count; c++) {
      napi_value channel;
      check(env, napi_get_element(env, args[3], c, &channel));
      task->channels.push_back(copyFloats(env, channel));
      if (task->channels[c].size() != task->channels[0].size()) throw CodedError("AUDIO_UNWRITABLE", "the channels have different lengths");
    }
    if (count == 0) throw CodedError("AUDIO_UNWRITABLE", "no channels");
    return launch(env, std::move(task));
  });
}

}  // namespace

void exportAudioFile(napi_env env, napi_value exports) {
  exportFunction(env, exports, "decode", decode);
  exportFunction(env, exports, "audioInfo", audioInfo);
  exportFunction(env, exports, "encode", encode);
}

}  // namespace serac
