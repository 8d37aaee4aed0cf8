// One rank's buffers: memory with guard bytes on both sides of what a call may touch. A rank on a
// GPU has each of them twice: on the device, where calls work, and on the host, where the judge
// does.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "bench/backend.h"

namespace rondo::bench {

// A buffer of `capacity` bytes between guard zones. The part that a call uses may start anywhere
// in it; guard() writes the pattern directly around that part and damaged() looks for changes.
class Area {
 public:
  static constexpr std::size_t kGuard = 4096;   // allocated on each side
  static constexpr std::size_t kWatched = 256;  // of it checked, directly beside the data

  Area() = default;
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  ~Area() { release(); }

  // From the library (ncclMemAlloc) or from the system (CUDA's on a GPU); written once, so that its
  // pages exist.
  Status allocate(Backend& backend, std::size_t capacity, bool from_library);
  void release();

  // What the judge reads and writes, and what calls are given: the same memory on the host.
  std::byte* data() { return base_ + kGuard; }
  std::byte* place() { return place_ + kGuard; }
  // Makes the one equal to the other, guards of that part included; nothing to do on the host.
  Status send(const std::byte* from, std::size_t bytes);
  Status fetch(const std::byte* from, std::size_t bytes);
  std::size_t capacity() const { return capacity_; }
  // All of it, to be registered.
  void* whole() { return place_; }
  std::size_t whole_bytes() const { return capacity_ + 2 * kGuard; }

  static void guard(std::byte* from, std::size_t bytes);
  static std::size_t damaged(const std::byte* from, std::size_t bytes);  // guard bytes that changed

 private:
  Backend* backend_ = nullptr;
  std::byte* base_ = nullptr;   // on the host
  std::byte* place_ = nullptr;  // where calls work
  std::size_t capacity_ = 0;
  bool from_library_ = false;
};

// Bytes that can still be had on this host; the largest number where it does not say.
std::size_t available_memory();

}  // namespace rondo::bench
