// Multicast: an object to which several devices bind memory of their own, and which is then
// accessed at one address for all of them, by multimem instructions alone.
//
// A store reaches every device's memory, one after the other in an order that the seed chooses; a
// load adds up what all hold, in such an order, accumulated in float32. Violations: access by a
// device that was not added or not let in, where some device has bound nothing, off alignment, or
// by an ordinary load, store or copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::simt {

struct Allocation;

struct MulticastObject {
  std::size_t bytes;
  int wanted;               // devices
  std::uint32_t added = 0;  // as bits
  struct Bound {
    int device;
    std::size_t at, bytes;  // of the object
    const Allocation* memory;
    std::size_t memory_at;
  };
  std::vector<Bound> bound{};

  bool complete() const { return __builtin_popcount(added) == wanted; }
};

// Accesses of this process's kernels so far.
std::uint64_t multicast_accesses();

}  // namespace rondo::simt
