// An audio file that libsndfile reads, from a path or from memory, and what is shared by those who write.
#pragma once
#include <sndfile.h>

#include <string>
#include <vector>

#include "napi/napi.h"

namespace serac {

constexpr int maxChannels = 64;
constexpr int maxRate = 1 << 24;

struct Source {
  std::string path;
  std::vector<uint8_t> bytes;
  bool inMemory = false;
};
// A path, or bytes that are copied.
Source toSource(napi_env env, napi_value v);

// libsndfile's view of bytes in memory.
struct Memory {
  const std::vector<uint8_t>* bytes;
  sf_count_t position = 0;
};

// Throws CodedError AUDIO_*.
class SoundFile {
 public:
  SF_INFO info{};
  SNDFILE* file = nullptr;

  explicit SoundFile(const Source& source);
  ~SoundFile() { release(); }
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  bool cut = false;

 private:
  void release();
  void openMemory(const std::vector<uint8_t>& bytes);
  // Opens a WAV file that a pipe wrote again, in memory, with the size of its samples filled in. Leaves every other file as it is.
  void mendStreamed(const Source& source, uint64_t size);
  int fd_ = -1;
  Memory memory_{};
  std::vector<uint8_t> mended_;
};

// A format by serac's name for it; bits is 0 where samples are not written as integers. Throws AUDIO_UNWRITABLE.
int formatOf(const std::string& name, int& bits);

// Writes all frames; returns what went wrong, or "".
std::string writeFrames(SNDFILE* file, int bits, const std::vector<std::vector<float>>& channels);

}  // namespace serac
