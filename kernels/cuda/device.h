// The one way in which kernels touch memory and each other: accessors, in our own PTX under nvcc.
//
// Under RONDO_SIMT (a host compiler) each is a call of kernels/cuda/simt_hooks.h, so that an
// emulated GPU sees every access. Kernels use nothing else: no dereferenced pointer to global
// memory, no __shared__ variable (dynamic shared memory is addressed by byte offset), no builtin.
//
//   load / store          weak, 1 to 16 bytes, naturally aligned
//   load_once / ..._once  the same for data that is touched once (evict first)
//   prefetch              into the cache of the device; what is loaded later is loaded then
//   load_relaxed, load_acquire, store_relaxed, store_release<Scope>   4, 8 or 16 bytes
//   load_pair / store_pair             16 bytes, relaxed at system scope, whole in halves of 8
//   bytes
//   store_line   the same by eight lanes to the 128 bytes of a line, with one instruction of the
//   warp (null: this lane has none): whole, too, where the path to that memory is so kind
//   add_relaxed<Scope>, exchange_relaxed<Scope>, fence<Scope>, barrier, sync_warp, shuffle, ballot,
//   timer_ns, nap, spin (barriers of fewer threads: device_mbarrier.h)
// Guarantees: accesses are made in program order by the compiler (all are volatile to it); the
// device orders them as the PTX memory model says. Cost: the instruction that the name says.
#pragma once

#include <cstdint>

#include "base/fn.h"

#ifdef RONDO_SIMT
#include "kernels/cuda/simt_hooks.h"
#endif

#ifdef __CUDACC__
#define RONDO_NO_UNROLL _Pragma("unroll 1")
#else
#define RONDO_NO_UNROLL
#endif

namespace rondo::device {

// 16 bytes, moved by one instruction.
struct alignas(16) Vector {
  std::uint32_t word[4];
};

// 16 bytes of which each half arrives whole.
struct alignas(16) Pair {
  std::uint64_t half[2];
};

enum class Scope { kCta, kDevice, kSystem };

inline constexpr unsigned kWarp = 32;

}  // namespace rondo::device

#ifdef RONDO_SIMT
#include "kernels/cuda/device_simt.h"
#else
#include "kernels/cuda/device_ptx.h"
#endif

namespace rondo::device {

RONDO_FN inline unsigned lane_index() { return thread_index() % kWarp; }
RONDO_FN inline unsigned warp_index() { return thread_index() / kWarp; }
RONDO_FN inline bool any(bool condition) { return ballot(condition) != 0; }

}  // namespace rondo::device
