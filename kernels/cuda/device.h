// SPDX-License-Identifier: Apache-2.0
// All accesses of kernels to memory and to other threads: accessor functions, which are inline PTX
// under nvcc.
//
// Under RONDO_SIMT (a host compiler) each accessor calls kernels/cuda/simt_hooks.h, so that an
// emulated GPU sees every access. Kernels use nothing else: no dereferenced pointer to global
// memory, no __shared__ variable (dynamic shared memory is addressed by byte offset), no builtin.
//
//   load / store          weak, 1 to 16 bytes, naturally aligned
//   load_once / ..._once  the same for data that is touched once (evict first)
//   prefetch              into the device's cache; a hint only
//   load_relaxed, load_acquire, store_relaxed, store_release<Scope>   4, 8 or 16 bytes
//   load_pair / store_pair   16 bytes, relaxed at system scope; each half of 8 bytes is atomic
//   store_line            the same by eight lanes to one 128-byte line, with one warp instruction
//                         (null: this lane has no part); the line is atomic where the memory path
//                         makes it so
//   load_shared / store_shared   a word of shared memory, by byte offset
//   load_shared_late      the same where another thread may be writing, and an old value does no
//                         harm
//   add_relaxed<Scope>, exchange_relaxed<Scope>, fence<Scope>, barrier, sync_warp, shuffle, ballot,
//   timer_ns, nap, spin (barriers of fewer threads: device_mbarrier.h)
// Guarantees: the compiler keeps accesses in program order (all are volatile); the device orders
// them by the PTX memory model. Cost: the instruction in the name.
#pragma once

#include <cstdint>

#include "base/fn.h"

#ifdef RONDO_SIMT
#include "kernels/cuda/simt_hooks.h"
#endif

namespace rondo::device {

// 16 bytes, moved by one instruction.
struct alignas(16) Vector {
  std::uint32_t word[4];
};

// 16 bytes; each half arrives as a whole.
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
