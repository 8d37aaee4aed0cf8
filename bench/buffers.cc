// SPDX-License-Identifier: Apache-2.0
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

Status Area::allocate(Backend& backend, std::size_t capacity, bool from_library) {
  release();
  const std::size_t bytes = capacity + 2 * kGuard;
  void* memory = nullptr;
  GpuLane* gpu = backend.gpu();
  if (gpu != nullptr && !from_library) {
    RONDO_TRY(void* device, gpu->allocate(bytes));
    memory = device;
  } else if (from_library) {
    if (const ncclResult_t result = backend.allocate(bytes, &memory); result != ncclSuccess)
      return fail(static_cast<StatusCode>(result), "ncclMemAlloc of {} bytes: {}", bytes,
                  backend.last_error());
  }
  backend_ = &backend, place_ = static_cast<std::byte*>(memory);
  capacity_ = capacity, from_library_ = from_library;
  if (gpu == nullptr && from_library) {
    base_ = place_;
  } else {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return fail_errno(errno, "cannot allocate {} bytes for a buffer", bytes);
    base_ = static_cast<std::byte*>(memory);
    if (gpu == nullptr) place_ = base_;
  }
  std::memset(base_, 0, bytes);
  return gpu == nullptr ? ok_status() : gpu->upload(place_, base_, bytes);
}

Status Area::send(const std::byte* from, std::size_t bytes) {
  if (place_ == base_) return ok_status();
  const std::byte* begin = from - kWatched;
  return backend_->gpu()->upload(place_ + (begin - base_), begin, bytes + 2 * kWatched);
}

Status Area::fetch(const std::byte* from, std::size_t bytes) {
  if (place_ == base_) return ok_status();
  std::byte* begin = base_ + (from - kWatched - base_);
  return backend_->gpu()->download(begin, place_ + (begin - base_), bytes + 2 * kWatched);
}

void Area::release() {
  if (place_ == nullptr) return;
  const bool on_host = place_ == base_;
  if (from_library_)
    backend_->free(place_);
  else if (!on_host)
    backend_->gpu()->free(place_);
  if (base_ != nullptr && (!on_host || !from_library_)) munmap(base_, whole_bytes());
  base_ = place_ = nullptr;
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
