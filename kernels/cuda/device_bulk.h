// Bulk copies through shared memory (sm_90 and later). As in device.h: PTX under nvcc, hooks of the
// emulated GPU under RONDO_SIMT. Sizes and addresses are multiples of 16 bytes.
//
//   bulk_load(to, from, n, barrier)  global to shared memory; its end is an arrival at the barrier,
//                                    an mbarrier (device_mbarrier.h)
//   bulk_store(to, from, n), bulk_commit()   shared to global memory; commits a group of stores
//   bulk_wait<n, reads>()            until at most n newer groups are unfinished (or: still read)
//   fence_bulk()                     between ordinary accesses and bulk copies of the same bytes
#pragma once

#include "kernels/cuda/device_mbarrier.h"

#ifdef RONDO_SIMT
#include "kernels/cuda/simt_bulk_hooks.h"

namespace rondo::device {

inline constexpr bool kHasBulkCopies = true;
inline void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t mbarrier) {
  simt::mbarrier_expect(mbarrier, bytes);
  simt::bulk_load(to, from, bytes, mbarrier);
}
inline void bulk_store(void* to, std::uint32_t from, unsigned bytes) {
  simt::bulk_store(to, from, bytes);
}
inline void bulk_commit() { simt::bulk_commit(); }
template <unsigned groups_left, bool only_reads>
void bulk_wait() {
  simt::bulk_wait(groups_left, only_reads);
}
inline void fence_bulk() { simt::fence_async(); }

}  // namespace rondo::device
#else
namespace rondo::device {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool kHasBulkCopies = true;
#define RONDO_BULK(...) asm volatile(__VA_ARGS__)
#else
inline constexpr bool kHasBulkCopies = false;  // these must not be called
#define RONDO_BULK(...) __trap()
#endif

__device__ __forceinline__ void bulk_load(std::uint32_t to, const void* from, unsigned bytes,
                                          std::uint32_t mbarrier) {
  RONDO_BULK(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(mbarrier)),
      "r"(bytes)
      : "memory");
  RONDO_BULK(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(ptx::global(from)), "r"(bytes), "r"(shared_address(mbarrier))
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, std::uint32_t from, unsigned bytes) {
  RONDO_BULK("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(ptx::global(to)),
             "r"(shared_address(from)), "r"(bytes)
             : "memory");
}
__device__ __forceinline__ void bulk_commit() {
  RONDO_BULK("cp.async.bulk.commit_group;" ::: "memory");
}
template <unsigned groups_left, bool only_reads>
__device__ __forceinline__ void bulk_wait() {
  if constexpr (only_reads) {
    RONDO_BULK("cp.async.bulk.wait_group.read %0;" ::"n"(groups_left) : "memory");
  } else {
    RONDO_BULK("cp.async.bulk.wait_group %0;" ::"n"(groups_left) : "memory");
  }
}
__device__ __forceinline__ void fence_bulk() { RONDO_BULK("fence.proxy.async;" ::: "memory"); }
#undef RONDO_BULK

}  // namespace rondo::device
#endif
