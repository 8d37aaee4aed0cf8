// One rank's buffers: memory with guard bytes on both sides of what a call may touch.
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

  // From the library (ncclMemAlloc) or from the system; written once, so that its pages exist.
  Done allocate(Backend& backend, std::size_t capacity, bool from_library);
  void release();

  std::byte* data() { return base_ + kGuard; }
  std::size_t capacity() const { return capacity_; }
  // All of it, to be registered.
  void* whole() { return base_; }
  std::size_t whole_bytes() const { return capacity_ + 2 * kGuard; }

  static void guard(std::byte* from, std::size_t bytes);
  static std::size_t damaged(const std::byte* from, std::size_t bytes);  // guard bytes that changed

 private:
  Backend* backend_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0;
  bool from_library_ = false;
};

// Bytes that can still be had on this host; the largest number where it does not say.
std::size_t available_memory();

}  // namespace rondo::bench
