// SPDX-License-Identifier: Apache-2.0
// Any file as the trainer's checkpoint: it is refused with a reason, or it is complete and its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "checkpoint.h"
#include "hash.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr std::size_t kValues = 16;

// A valid checkpoint, overwritten by the input's bytes at the offset that it gives.
std::string file_of(const std::uint8_t* data, std::size_t size) {
  static const std::string right = [] {
    const std::string path = "/tmp/fuzz-checkpoint-" + std::to_string(getpid());
    require(train::save_checkpoint(path, {}, 7, std::vector<float>(kValues, 0.5f)).empty());
    std::string bytes(4096, '\0');
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(read(fd, bytes.data(), 4096), 0)));
    close(fd);
    unlink(path.c_str());
    return bytes;
  }();
  std::string bytes = right;
  const std::size_t at = data[0] % bytes.size();
  if (at + size - 1 > bytes.size()) bytes.resize(at + size - 1);
  std::memcpy(bytes.data() + at, data + 1, size - 1);
  // Every other input gets a valid checksum, so that the fields after it are read.
  const std::size_t header = right.size() - kValues * sizeof(float);
  if (size % 2 == 0 && bytes.size() >= header) {
    const std::uint64_t hash = train::fnv1a(bytes.data(), header - sizeof hash);
    std::memcpy(bytes.data() + header - sizeof hash, &hash, sizeof hash);
  }
  if (size % 3 == 0) bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), data[0]));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = memfd_create("checkpoint", MFD_CLOEXEC);
  if (size == 0) return 0;
  const std::string bytes = file_of(data, size);
  require(ftruncate(fd, 0) == 0);
  require(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::int64_t step = -1;
  std::vector<float> state(kValues, -1.0f);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const std::string refused = train::load_checkpoint(path, {}, &step, &state);
  require(state.size() == kValues);
  require(refused.empty() ? step >= 0 : step == -1 && state[0] == -1.0f);
  return 0;
}
