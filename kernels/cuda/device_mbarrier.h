// SPDX-License-Identifier: Apache-2.0
// mbarriers: 8-byte barriers in shared memory at which threads arrive without waiting (sm_80 and
// later). As in device.h: PTX under nvcc, hooks of the emulated GPU under RONDO_SIMT.
//
//   mbarrier_init(at, n) / mbarrier_end(at)  by one thread; every n-th arrival ends a phase
//   mbarrier_arrive(at)                      releases what this thread did before
//   mbarrier_over(at, parity)                true if the phase of that parity has ended: then what
//                                            the arriving threads did is visible
//   mbarrier_wait(at, parity)                waits until it has ended
// Guarantees: arrive is a release; over and wait are acquires, at CTA scope. Only the current and
// the previous phase can be queried: they differ in parity. Waits have no deadline, so use them
// only for events that always occur.
#pragma once

#include "kernels/cuda/device.h"

namespace rondo::device {

#ifdef RONDO_SIMT
inline void mbarrier_init(std::uint32_t at, unsigned arrivals) {
  simt::mbarrier_init(at, arrivals);
}
inline void mbarrier_end(std::uint32_t at) { simt::mbarrier_end(at); }
inline void mbarrier_arrive(std::uint32_t at) { simt::mbarrier_arrive(at); }
inline bool mbarrier_over(std::uint32_t at, unsigned parity) {
  return simt::mbarrier_test(at, parity);
}
inline void mbarrier_wait(std::uint32_t at, unsigned parity) { simt::mbarrier_wait(at, parity); }
#else

__device__ __forceinline__ std::uint32_t shared_address(std::uint32_t offset) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(rondo_dynamic_shared)) + offset;
}
__device__ __forceinline__ void mbarrier_init(std::uint32_t at, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(arrivals)
               : "memory");
}
__device__ __forceinline__ void mbarrier_end(std::uint32_t at) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(at)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(std::uint32_t at) {
  asm volatile(
      "{\n.reg .b64 state;\n"
      "mbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_address(at))
      : "memory");
}
#define RONDO_ASK_MBARRIER(instruction)                                               \
  std::uint32_t over = 0;                                                             \
  asm volatile("{\n.reg .pred over;\n" instruction                                    \
               ".parity.shared::cta.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}" \
               : "=r"(over)                                                           \
               : "r"(shared_address(at)), "r"(parity)                                 \
               : "memory");                                                           \
  return over != 0
__device__ __forceinline__ bool mbarrier_over(std::uint32_t at, unsigned parity) {
  RONDO_ASK_MBARRIER("mbarrier.test_wait");
}
// The same; where the device supports it, the thread sleeps for a while before this returns false.
__device__ __forceinline__ bool mbarrier_over_soon(std::uint32_t at, unsigned parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  RONDO_ASK_MBARRIER("mbarrier.try_wait");
#else
  return mbarrier_over(at, parity);
#endif
}
#undef RONDO_ASK_MBARRIER
__device__ __forceinline__ void mbarrier_wait(std::uint32_t at, unsigned parity) {
  while (!mbarrier_over_soon(at, parity)) {
  }
}
#endif

}  // namespace rondo::device
