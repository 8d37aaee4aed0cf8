// Bulk copies through shared memory (sm_90 and up), in the manner of device.h: PTX under nvcc,
// hooks of the emulated GPU under RONDO_SIMT. Sizes and places are multiples of 16 bytes.
//
//   mbarrier_init / mbarrier_end     a barrier of 8 bytes in shared memory, by one thread
//   bulk_load(to, from, n, barrier)  global to shared memory; arrives at the barrier
//   mbarrier_over(barrier, parity)   whether that phase is over: then what it brought is there
//   bulk_store(to, from, n), bulk_commit()   shared to global memory; a group of stores
//   bulk_wait<n, reads>()            until at most n newer groups are under way (or: not yet read)
//   fence_bulk()                     between ordinary accesses and bulk copies of the same bytes
#pragma once

#include "kernels/cuda/device.h"

#ifdef RONDO_SIMT
#include "kernels/cuda/simt_bulk_hooks.h"

namespace rondo::device {

inline constexpr bool kHasBulkCopies = true;
inline void mbarrier_init(std::uint32_t at) { simt::mbarrier_init(at, 1); }
inline void mbarrier_end(std::uint32_t at) { simt::mbarrier_end(at); }
inline bool mbarrier_over(std::uint32_t at, unsigned parity) {
  return simt::mbarrier_test(at, parity);
}
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
inline constexpr bool kHasBulkCopies = false;  // then nobody may call these
#define RONDO_BULK(...) __trap()
#endif

__device__ __forceinline__ std::uint32_t shared_address(std::uint32_t offset) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(rondo_dynamic_shared)) + offset;
}
__device__ __forceinline__ void mbarrier_init(std::uint32_t at) {
  RONDO_BULK("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(at)) : "memory");
  RONDO_BULK("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_end(std::uint32_t at) {
  RONDO_BULK("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(at)) : "memory");
}
__device__ __forceinline__ bool mbarrier_over(std::uint32_t at, unsigned parity) {
  std::uint32_t over = 0;
  RONDO_BULK(
      "{\n.reg .pred over;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
      "selp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(shared_address(at)), "r"(parity)
      : "memory");
  return over != 0;
}
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
