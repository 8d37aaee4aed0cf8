// SPDX-License-Identifier: Apache-2.0
// ByteCopy: copies bytes from one address to one or more, of any alignment, by all threads of a
// share.
//
// Guarantees: neighbouring bytes are not touched; a target may be the source. Cost: each byte is
// read once, in the widest unit (16, 4 or 1 bytes) that all addresses have in common, with
// `in_flight` units in flight per thread.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"

namespace rondo::cuda {

// The units of work (vectors, elements) of this thread: first, first + step, ...
struct Share {
  std::uint64_t first, step;
};

RONDO_FN inline unsigned misalignment(const void* pointer) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(pointer)) % sizeof(device::Vector);
}

// Target: a function that returns the address of target t.
template <int in_flight, class Target>
struct ByteCopy {
  const void* source;
  std::uint64_t bytes;
  unsigned targets;
  Target target;

  RONDO_FN const std::uint8_t* from() const { return static_cast<const std::uint8_t*>(source); }
  RONDO_FN std::uint8_t* to(unsigned t) const { return reinterpret_cast<std::uint8_t*>(target(t)); }

  RONDO_FN void run(const Share& share) const {
    // The bits below 16 in which any address differs from the source's: they limit the unit.
    unsigned differ = 0;
    const unsigned misaligned = misalignment(from());
    for (unsigned t = 0; t < targets; ++t) differ |= misalignment(to(t)) ^ misaligned;
    if (differ == 0) return run_units<device::Vector>(share);
    if (differ % 4 == 0) return run_units<std::uint32_t>(share);
    run_units<std::uint8_t>(share);
  }

 private:
  template <class Unit>
  RONDO_FN void run_units(const Share& share) const {
    const std::uint64_t to_boundary =
        (sizeof(Unit) - misalignment(from()) % sizeof(Unit)) % sizeof(Unit);
    const std::uint64_t head = to_boundary < bytes ? to_boundary : bytes;
    const std::uint64_t units = (bytes - head) / sizeof(Unit);
    const Unit* first = reinterpret_cast<const Unit*>(from() + head);
    std::uint64_t i = share.first;
    RONDO_NO_UNROLL
    for (; i + (in_flight - 1) * share.step < units; i += in_flight * share.step)
      copy_units<Unit, in_flight>(first, head, i, share.step);
    for (; i < units; i += share.step) copy_units<Unit, 1>(first, head, i, share.step);
    if constexpr (sizeof(Unit) > 1) {
      copy_single(0, head, share);
      copy_single(head + units * sizeof(Unit), bytes, share);
    }
  }

  template <class Unit, int unroll>
  RONDO_FN void copy_units(const Unit* first, std::uint64_t head, std::uint64_t i,
                           std::uint64_t step) const {
    Unit loaded[unroll];
    RONDO_UNROLL
    for (int u = 0; u < unroll; ++u) loaded[u] = device::load_once(first + i + u * step);
    RONDO_NO_UNROLL
    for (unsigned t = 0; t < targets; ++t) {
      Unit* const at = reinterpret_cast<Unit*>(to(t) + head);
      RONDO_UNROLL
      for (int u = 0; u < unroll; ++u) device::store_once(at + i + u * step, loaded[u]);
    }
  }

  RONDO_FN void copy_single(std::uint64_t begin, std::uint64_t end, const Share& share) const {
    for (std::uint64_t i = begin + share.first; i < end; i += share.step) {
      const std::uint8_t byte = device::load(from() + i);
      for (unsigned t = 0; t < targets; ++t) device::store(to(t) + i, byte);
    }
  }
};
template <int in_flight = 8, class Target>
RONDO_FN inline void copy_bytes(const void* source, std::uint64_t bytes, unsigned targets,
                                const Target& target, const Share& share) {
  ByteCopy<in_flight, Target>{source, bytes, targets, target}.run(share);
}

}  // namespace rondo::cuda
