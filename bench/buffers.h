// SPDX-License-Identifier: Apache-2.0
// Area: one buffer of a rank, with guard bytes on both sides of the part that a call may touch. On
// a GPU a buffer has two copies: one on the device for calls, one on the host for the judge
// (reference.h).
#pragma once

#include <cstddef>

#include "base/result.h"
#include "bench/backend.h"

namespace rondo::bench {

// A buffer of `capacity` bytes between guard zones. The part that a call uses may start anywhere
// in it; guard() writes a pattern directly around that part, damaged() counts changed bytes.
class Area {
 public:
  static constexpr std::size_t kGuard = 4096;   // allocated on each side
  static constexpr std::size_t kWatched = 256;  // checked part of it, next to the data

  Area() = default;
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  ~Area() { release(); }

  // Memory of the library (ncclMemAlloc) or of the system (CUDA's on a GPU). Zeroed, so that its
  // pages exist.
  Status allocate(Backend& backend, std::size_t capacity, bool from_library);
  void release();

  // data(): the host copy, for the judge. place(): the memory for calls. On the host both are one.
  std::byte* data() { return base_ + kGuard; }
  std::byte* place() { return place_ + kGuard; }
  // send() copies this range with its guards from data() to place(), fetch() copies it back. No-op
  // on the host.
  Status send(const std::byte* from, std::size_t bytes);
  Status fetch(const std::byte* from, std::size_t bytes);
  std::size_t capacity() const { return capacity_; }
  // The whole allocation, for registration.
  void* whole() { return place_; }
  std::size_t whole_bytes() const { return capacity_ + 2 * kGuard; }

  static void guard(std::byte* from, std::size_t bytes);
  static std::size_t damaged(const std::byte* from, std::size_t bytes);  // guard bytes that changed

 private:
  Backend* backend_ = nullptr;
  std::byte* base_ = nullptr;   // host copy
  std::byte* place_ = nullptr;  // memory for calls
  std::size_t capacity_ = 0;
  bool from_library_ = false;
};

// Bytes of free memory on this host (MemAvailable); the maximum of the type if unknown.
std::size_t available_memory();

}  // namespace rondo::bench
