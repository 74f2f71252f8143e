// Opening audio with libsndfile, and writing frames.
#include "media/soundFile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace serac {
namespace {

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

uint32_t u32At(const uint8_t* at) { return static_cast<uint32_t>(at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24); }

// libsndfile repairs sizes in WAV headers silently; this tells a cut file from a streaming writer's placeholder.
bool wavIsCut(const uint8_t* head, size_t headSize, uint64_t fileSize) {
  if (headSize < 12 || std::memcmp(head, "RIFF", 4) != 0 || std::memcmp(head + 8, "WAVE", 4) != 0) return false;
  for (uint64_t at = 12; at + 8 <= headSize;) {
    uint32_t size = u32At(head + at + 4);
    if (std::memcmp(head + at, "data", 4) == 0) return size < 0x7fff0000u && at + 8 + size > fileSize;
    at += 8 + static_cast<uint64_t>(size) + size % 2;
  }
  return false;
}

// Where the data chunk of a WAV file begins whose writer could not go back to fill its size in, as of a pipe: 0 bytes by the header, samples behind it. 0 where it is none.
// Behind the data of an honest empty file further chunks may stand, which begin with a name of printable ASCII and fit into the file.
template <typename ReadAt>
uint64_t streamedData(ReadAt readAt, uint64_t size) {
  uint8_t head[12];
  if (size < 12 || !readAt(head, 0, 12) || std::memcmp(head, "RIFF", 4) != 0 || std::memcmp(head + 8, "WAVE", 4) != 0) return 0;
  const uint64_t riffEnd = 8 + static_cast<uint64_t>(u32At(head + 4));
  uint64_t at = 12;
  for (int chunks = 0; chunks < 10000 && at + 8 <= size && readAt(head, at, 8); chunks++) {
    const uint64_t length = u32At(head + 4), start = at + 8;
    if (std::memcmp(head, "data", 4) == 0) {
      if (length != 0 || start >= size) return 0;
      if (riffEnd >= 0x7fff0000u || riffEnd <= start) return start;
      if (start + 8 > size || !readAt(head, start, 8)) return 0;
      const bool named = std::all_of(head, head + 4, [](uint8_t c) { return c >= ' ' && c <= '~'; });
      return named && u32At(head + 4) <= size - start - 8 ? 0 : start;
    }
    at = start + length + length % 2;
  }
  return 0;
}

}  // namespace

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

SoundFile::SoundFile(const Source& source) {
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
    openMemory(source.bytes);
  } else {
    file = sf_open_fd(fd_, SFM_READ, &info, 0);
  }
  try {
    if (file && info.frames == 0) mendStreamed(source, size);
  } catch (...) {
    release();
    throw;
  }
  if (!file) {
    std::string why = sf_strerror(nullptr);
    release();
    throw CodedError("AUDIO_NOT_AUDIO", why);
  }
  if (info.channels < 1 || info.channels > maxChannels || info.samplerate < 1 || info.samplerate > maxRate || info.frames < 0) {
    std::string what = std::to_string(info.channels) + " channels at " + std::to_string(info.samplerate) + " Hz";
    release();
    throw CodedError("AUDIO_NOT_AUDIO", "a header that makes no sense: " + what);
  }
}

void SoundFile::openMemory(const std::vector<uint8_t>& bytes) {
  memory_ = Memory{&bytes};
  static SF_VIRTUAL_IO io = {memoryLength, memorySeek, memoryRead, memoryWrite, memoryTell};
  info = SF_INFO{};
  file = sf_open_virtual(&io, SFM_READ, &info, &memory_);
}

void SoundFile::mendStreamed(const Source& source, uint64_t size) {
  auto readAt = [&](void* into, uint64_t at, size_t count) {
    if (!source.inMemory) return pread(fd_, into, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count);
    if (at + count > source.bytes.size()) return false;
    std::memcpy(into, source.bytes.data() + at, count);
    return true;
  };
  const uint64_t start = streamedData(readAt, size);
  if (start == 0 || size - start > 0xffffffffu) return;
  if (source.inMemory) {
    mended_ = source.bytes;
  } else {
    mended_.resize(size);
    for (uint64_t at = 0; at < size;) {
      const ssize_t got = pread(fd_, mended_.data() + at, size - at, static_cast<off_t>(at));
      if (got <= 0) throw CodedError("AUDIO_UNREADABLE", got < 0 ? std::strerror(errno) : "the file became shorter while it was read");
      at += static_cast<uint64_t>(got);
    }
  }
  const uint64_t length = size - start;
  for (int i = 0; i < 4; i++) mended_[start - 4 + static_cast<uint64_t>(i)] = static_cast<uint8_t>(length >> (8 * i));
  release();
  openMemory(mended_);
}

void SoundFile::release() {
  if (file) sf_close(file);
  file = nullptr;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int formatOf(const std::string& name, int& bits) {
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

std::string writeFrames(SNDFILE* file, int bits, const std::vector<std::vector<float>>& channels) {
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

}  // namespace serac
