// SPDX-License-Identifier: Apache-2.0
// What api/nccl_device_code.h needs of a GPU, on the emulated one: kernels of NCCL's device API
// compile as C++, and the emulated GPU sees their accesses. Kernels access windows by the accessors
// of kernels/cuda/device.h.
//
//   #define RONDO_DEVICE_PRIMITIVES "tests/simt/device_primitives.h"
//   #include "api/nccl_device.h"
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/device.h"
#include "kernels/cuda/simt_multicast_hooks.h"

#define __device__
#define __host__
#define __forceinline__ inline

namespace cuda {

using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

}  // namespace cuda

namespace rondo_device {

namespace emulated = rondo::device;
using emulated::Scope;

[[noreturn]] inline void refuse() {
  std::fputs("a kernel used GIN, which Rondo does not have\n", stderr);
  std::abort();
}

inline std::uint32_t thread_index() { return emulated::thread_index(); }
inline std::uint32_t thread_count() { return emulated::thread_count(); }
inline int count_bits(std::uint32_t word) { return __builtin_popcount(word); }
inline void sync_cta() { emulated::barrier(); }
inline void sync_lanes(std::uint32_t /*lanes*/) { emulated::sync_warp(); }
template <class T>
T load(const T* from) {
  return emulated::load(from);
}
template <class T>
void store(T* at, T value) {
  emulated::store(at, value);
}
inline std::uint64_t load_system64(const std::uint64_t* from) {
  return emulated::load_relaxed<Scope::kSystem>(from);
}
inline void store_system64(std::uint64_t* at, std::uint64_t value) {
  emulated::store_relaxed<Scope::kSystem>(at, value);
}
inline std::uint32_t load_system(std::uint32_t* from, cuda::memory_order order) {
  return order == cuda::memory_order_acquire ? emulated::load_acquire<Scope::kSystem>(from)
                                             : emulated::load_relaxed<Scope::kSystem>(from);
}
inline void store_system(std::uint32_t* at, std::uint32_t value, cuda::memory_order order) {
  if (order == cuda::memory_order_release)
    emulated::store_release<Scope::kSystem>(at, value);
  else
    emulated::store_relaxed<Scope::kSystem>(at, value);
}
inline void add_to_all(std::uint32_t* at, std::uint32_t value, bool release) {
  rondo::simt::multicast_add(at, value, release);
}
inline std::uint64_t cycles() { return emulated::timer_ns(); }
inline void pause() { emulated::spin(); }

}  // namespace rondo_device
