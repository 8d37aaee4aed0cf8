#include "bench/buffers.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace rondo::bench {
namespace {

constexpr unsigned char pattern(std::size_t i) {
  return static_cast<unsigned char>(0xa5 ^ (i * 37));
}

}  // namespace

Done Area::allocate(Backend& backend, std::size_t capacity, bool from_library) {
  release();
  const std::size_t bytes = capacity + 2 * kGuard;
  void* memory = nullptr;
  if (from_library) {
    if (const ncclResult_t result = backend.allocate(bytes, &memory); result != ncclSuccess)
      return fail(static_cast<Status>(result), "ncclMemAlloc of {} bytes: {}", bytes,
                  backend.last_error());
  } else {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail_errno(errno, "no {} bytes for a buffer", bytes);
  }
  std::memset(memory, 0, bytes);
  backend_ = &backend, base_ = static_cast<std::byte*>(memory);
  capacity_ = capacity, from_library_ = from_library;
  return done();
}

void Area::release() {
  if (base_ == nullptr) return;
  if (from_library_)
    backend_->free(base_);
  else
    munmap(base_, whole_bytes());
  base_ = nullptr;
}

void Area::guard(std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < kWatched; ++i) {
    (from - kWatched)[i] = std::byte{pattern(i)};
    (from + bytes)[i] = std::byte{pattern(i)};
  }
}

std::size_t Area::damaged(const std::byte* from, std::size_t bytes) {
  std::size_t changed = 0;
  for (std::size_t i = 0; i < kWatched; ++i)
    changed += ((from - kWatched)[i] != std::byte{pattern(i)}) +
               ((from + bytes)[i] != std::byte{pattern(i)});
  return changed;
}

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kibibytes) == 1)
      return static_cast<std::size_t>(kibibytes) << 10;
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace rondo::bench
