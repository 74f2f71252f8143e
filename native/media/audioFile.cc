// Audio files by libsndfile.
#include "media/audioFile.h"

#include <fcntl.h>
#include <sndfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "media/task.h"

namespace serac {
namespace {

constexpr int maxChannels = 64;
constexpr int maxRate = 1 << 24;

struct Source {
  std::string path;
  std::vector<uint8_t> bytes;
  bool inMemory = false;
};

Source toSource(napi_env env, napi_value v) {
  Source source;
  napi_valuetype type;
  check(env, napi_typeof(env, v, &type));
  if (type == napi_string) {
    source.path = toString(env, v);
    return source;
  }
  Bytes bytes = toBytes(env, v);
  source.inMemory = true;
  source.bytes.assign(bytes.data, bytes.data + bytes.size);
  return source;
}

// libsndfile's view of bytes in memory.
struct Memory {
  const std::vector<uint8_t>* bytes;
  sf_count_t position = 0;
};
sf_count_t memoryLength(void* user) { return static_cast<sf_count_t>(static_cast<Memory*>(user)->bytes->size()); }
sf_count_t memorySeek(sf_count_t offset, int whence, void* user) {
  Memory& m = *static_cast<Memory*>(user);
  sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m.position : memoryLength(user);
  m.position = std::clamp<sf_count_t>(base + offset, 0, memoryLength(user));
  return m.position;
}
sf_count_t memoryRead(void* into, sf_count_t count, void* user) {
  Memory& m = *static_cast<Memory*>(user);
  count = std::clamp<sf_count_t>(memoryLength(user) - m.position, 0, count);
  if (count > 0) std::memcpy(into, m.bytes->data() + m.position, static_cast<size_t>(count));
  m.position += count;
  return count;
}
sf_count_t memoryWrite(const void*, sf_count_t, void*) { return 0; }
sf_count_t memoryTell(void* user) { return static_cast<Memory*>(user)->position; }

// libsndfile repairs sizes in WAV headers silently; this tells a cut file from a streaming writer's placeholder.
bool wavIsCut(const uint8_t* head, size_t headSize, uint64_t fileSize) {
  auto u32 = [&](size_t at) { return static_cast<uint32_t>(head[at] | head[at + 1] << 8 | head[at + 2] << 16 | static_cast<uint32_t>(head[at + 3]) << 24); };
  if (headSize < 12 || std::memcmp(head, "RIFF", 4) != 0 || std::memcmp(head + 8, "WAVE", 4) != 0) return false;
  for (uint64_t at = 12; at + 8 <= headSize;) {
    uint32_t size = u32(at + 4);
    if (std::memcmp(head + at, "data", 4) == 0) return size < 0x7fff0000u && at + 8 + size > fileSize;
    at += 8 + static_cast<uint64_t>(size) + size % 2;
  }
  return false;
}

class SoundFile {
 public:
  SF_INFO info{};
  SNDFILE* file = nullptr;

  explicit SoundFile(const Source& source) {
    uint8_t head[4096];
    size_t headSize = 0;
    uint64_t size = 0;
    if (source.inMemory) {
      size = source.bytes.size();
      headSize = std::min(sizeof(head), source.bytes.size());
      if (headSize > 0) std::memcpy(head, source.bytes.data(), headSize);
    } else {
      fd_ = open(source.path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd_ < 0) throw CodedError(errno == ENOENT || errno == ENOTDIR ? "AUDIO_MISSING" : "AUDIO_UNREADABLE", std::strerror(errno));
      struct stat status;
      if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd_);
        throw CodedError("AUDIO_NOT_AUDIO", "not a regular file");
      }
      size = static_cast<uint64_t>(status.st_size);
      ssize_t n = pread(fd_, head, sizeof(head), 0);
      headSize = n > 0 ? static_cast<size_t>(n) : 0;
    }
    if (size == 0) {
      if (fd_ >= 0) close(fd_);
      throw CodedError("AUDIO_EMPTY", "the file has no bytes");
    }
    cut = wavIsCut(head, headSize, size);
    if (source.inMemory) {
      memory_.bytes = &source.bytes;
      static SF_VIRTUAL_IO io = {memoryLength, memorySeek, memoryRead, memoryWrite, memoryTell};
      file = sf_open_virtual(&io, SFM_READ, &info, &memory_);
    } else {
      file = sf_open_fd(fd_, SFM_READ, &info, 0);
    }
    if (!file) {
      std::string why = sf_strerror(nullptr);
      if (fd_ >= 0) close(fd_);
      throw CodedError("AUDIO_NOT_AUDIO", why);
    }
    if (info.channels < 1 || info.channels > maxChannels || info.samplerate < 1 || info.samplerate > maxRate || info.frames < 0) {
      std::string what = std::to_string(info.channels) + " channels at " + std::to_string(info.samplerate) + " Hz";
      release();
      throw CodedError("AUDIO_NOT_AUDIO", "a header that makes no sense: " + what);
    }
  }
  ~SoundFile() { release(); }
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  bool cut = false;

 private:
  void release() {
    if (file) sf_close(file);
    file = nullptr;
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd_ = -1;
  Memory memory_{};
};

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

  static int formatOf(const std::string& name, int& bits) {
    bits = 16;
    if (name == "wav") return SF_FORMAT_WAV | SF_FORMAT_PCM_16;
    if (name == "flac") return SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
    bits = 24;
    if (name == "wav24") return SF_FORMAT_WAV | SF_FORMAT_PCM_24;
    if (name == "flac24") return SF_FORMAT_FLAC | SF_FORMAT_PCM_24;
    bits = 0;
    if (name == "wavfloat") return SF_FORMAT_WAV | SF_FORMAT_FLOAT;
    if (name == "ogg") return SF_FORMAT_OGG | SF_FORMAT_VORBIS;
    if (name == "opus") return SF_FORMAT_OGG | SF_FORMAT_OPUS;
    if (name == "mp3") return SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;
    throw CodedError("AUDIO_UNWRITABLE", "unknown format " + name);
  }

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
      failure = write(file, bits);
      if (sf_close(file) != 0 && failure.empty()) failure = "the file could not be finished";
    }
    if (fsync(fd) != 0 && failure.empty()) failure = std::strerror(errno);
    close(fd);
    if (!failure.empty()) throw CodedError("AUDIO_UNWRITABLE", failure);
  }

  std::string write(SNDFILE* file, int bits) {
    const size_t n = channels.size(), frames = channels[0].size(), step = 1 << 13;
    std::vector<float> floats(step * n);
    std::vector<int> ints(bits ? step * n : 0);
    const double scale = bits ? std::ldexp(1.0, bits - 1) : 1;
    if (!bits) sf_command(file, SFC_SET_CLIPPING, nullptr, SF_TRUE);
    for (size_t start = 0; start < frames; start += step) {
      const size_t count = std::min(step, frames - start);
      for (size_t c = 0; c < n; c++) {
        const float* in = channels[c].data() + start;
        // libsndfile scales by 2^(bits-1) - 1 on the way out and by 2^(bits-1) on the way in; here both are the latter, so that reading and writing changes nothing.
        if (bits) {
          for (size_t i = 0; i < count; i++) ints[i * n + c] = static_cast<int>(std::clamp(std::nearbyint(in[i] * scale), -scale, scale - 1)) * (1 << (32 - bits));
        } else {
          for (size_t i = 0; i < count; i++) floats[i * n + c] = in[i];
        }
      }
      const sf_count_t wanted = static_cast<sf_count_t>(count);
      const sf_count_t written = bits ? sf_writef_int(file, ints.data(), wanted) : sf_writef_float(file, floats.data(), wanted);
      if (written != wanted) return sf_strerror(file);
    }
    return "";
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
