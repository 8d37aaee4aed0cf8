/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_device_code.h: NCCL's device API for kernels. Included by nccl_device.h under nvcc or clang.
 *
 * Works: groups of threads, teams, addresses of windows and resources, barriers of the Lsa team,
 * sums and copies of its windows, LLA2A sessions. A name of GIN compiles, and its first use stops
 * the kernel with cudaErrorAssert and a line on stderr that says why. Sessions of CFT, and sums and
 * copies by multicast memory, fail a static_assert that says what to do: build such a kernel with
 * NVIDIA's header.
 *
 * Order: arrive() with a releasing order publishes what all threads of the group have written, to
 * peers whose wait() has an acquiring order. Waits end after ncclCommAbort or a fault, also without
 * the peers. The layouts are those of NCCL 2.32, for NVIDIA's library, too.
 *
 *   ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
 *   barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
 *   const float* theirs = static_cast<const float*>(ncclGetLsaPointer(window, 0, peer));
 *
 * RONDO_DEVICE_PRIMITIVES: a header with the functions of rondo_device, for an emulated GPU.
 */
#ifndef NCCL_DEVICE_CODE_H_
#define NCCL_DEVICE_CODE_H_

#ifdef RONDO_DEVICE_PRIMITIVES
#include RONDO_DEVICE_PRIMITIVES
#else
#include <cuda/atomic>

namespace rondo_device {

// assert() would be empty under NDEBUG.
inline __device__ __noinline__ void refuse() {
  __assert_fail(
      "GIN in a kernel: Rondo's nccl_device.h does not have it; use the Lsa team, the host API "
      "between hosts, or NVIDIA's header on NVIDIA's library",
      "nccl_device.h", 0, "a kernel");
}

inline __device__ uint32_t thread_index() { return threadIdx.x; }
inline __device__ uint32_t thread_count() { return blockDim.x; }
inline __device__ int count_bits(uint32_t word) { return __popc(word); }
inline __device__ void sync_cta() { __syncthreads(); }
inline __device__ void sync_lanes(uint32_t lanes) { __syncwarp(lanes); }
template <class T>
__device__ T load(const T* from) {
  return *from;
}
template <class T>
__device__ void store(T* at, T value) {
  *at = value;
}
inline __device__ uint64_t load_system64(uint64_t* from) {
  return cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*from).load(
      cuda::memory_order_relaxed);
}
inline __device__ void store_system64(uint64_t* at, uint64_t value) {
  cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*at).store(value,
                                                                   cuda::memory_order_relaxed);
}
inline __device__ uint32_t load_system(uint32_t* from, cuda::memory_order order) {
  return cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*from).load(order);
}
inline __device__ void store_system(uint32_t* at, uint32_t value, cuda::memory_order order) {
  cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*at).store(value, order);
}
// To the memory of all ranks at a multicast address.
inline __device__ void add_to_all(uint32_t* at, uint32_t value, bool release) {
#if __CUDA_ARCH__ >= 900
  if (release)
    asm volatile("multimem.red.release.sys.global.add.u32 [%0], %1;" ::"l"(at), "r"(value)
                 : "memory");
  else
    asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(at), "r"(value)
                 : "memory");
#else
  (void)at, (void)value, (void)release;
  refuse();
#endif
}
inline __device__ uint64_t cycles() { return static_cast<uint64_t>(clock64()); }
inline __device__ void pause() {}

}  // namespace rondo_device
#endif

#define NCCL_DEVICE_INLINE __device__ __forceinline__
#define NCCL_HOST_DEVICE_INLINE __host__ __device__ __forceinline__

namespace rondo_device {

template <class Result>
__device__ Result refused() {
  refuse();
  return Result{};
}

template <class...>
struct Missing {
  static constexpr bool value = false;
};

}  // namespace rondo_device

struct ncclTeamTagWorld {};
struct ncclTeamTagLsa {};
struct ncclTeamTagRail {};

enum class ncclGinFenceLevel : uint32_t { None = 0, Put = 1, Get = 2, Relaxed = None };
NCCL_HOST_DEVICE_INLINE constexpr ncclGinFenceLevel operator|(ncclGinFenceLevel a,
                                                              ncclGinFenceLevel b) {
  return static_cast<ncclGinFenceLevel>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}

enum ncclGinOptFlags {
  ncclGinOptFlagsDefault = 0,
  ncclGinOptFlagsMaySkipCreditCheck = 1,
  ncclGinOptFlagsAggregateRequests = 2
};
enum ncclGinResourceSharingMode : uint8_t {
  NCCL_GIN_RESOURCE_SHARING_GPU = 0,
  NCCL_GIN_RESOURCE_SHARING_CTA = 1,
  NCCL_GIN_RESOURCE_SHARING_THREAD = 2
};

// ---- Groups of threads ---------------------------------------------------------------------

struct ncclCoopCta {
  __device__ int thread_rank() const { return static_cast<int>(rondo_device::thread_index()); }
  __device__ int size() const { return static_cast<int>(rondo_device::thread_count()); }
  __device__ int num_threads() const { return size(); }
  __device__ void sync() { rondo_device::sync_cta(); }
};

template <int kThreads>
struct ncclCoopTile {  // aligned threads of a warp
  static_assert(kThreads > 0 && kThreads <= 32 && (kThreads & (kThreads - 1)) == 0,
                "a tile has 1, 2, 4, 8, 16 or 32 threads");
  __device__ int thread_rank() const {
    return static_cast<int>(rondo_device::thread_index()) % kThreads;
  }
  __device__ constexpr int size() const { return kThreads; }
  __device__ constexpr int num_threads() const { return kThreads; }
  __device__ uint32_t laneMask() const {
    const uint32_t first = rondo_device::thread_index() % 32 / kThreads * kThreads;
    return (~0u >> (32 - kThreads)) << first;
  }
  __device__ void sync() { rondo_device::sync_lanes(laneMask()); }
};
struct ncclCoopLanes {  // some threads of a warp
  uint32_t lmask;
  __device__ constexpr ncclCoopLanes(uint32_t lanes = ~0u) : lmask(lanes) {}
  __device__ int thread_rank() const {
    return rondo_device::count_bits(lmask & ((1u << rondo_device::thread_index() % 32) - 1));
  }
  __device__ int size() const { return rondo_device::count_bits(lmask); }
  __device__ int num_threads() const { return size(); }
  __device__ void sync() { rondo_device::sync_lanes(lmask); }
};
template <int kThreads>
__device__ uint32_t ncclCoopGetLaneMask(ncclCoopTile<kThreads> coop) {
  return coop.laneMask();
}
inline __device__ uint32_t ncclCoopGetLaneMask(ncclCoopLanes coop) { return coop.lmask; }
inline __device__ uint32_t ncclCoopGetLaneMask(ncclCoopCta) { return ~0u; }
using ncclCoopThread = ncclCoopTile<1>;
using ncclCoopWarp = ncclCoopTile<32>;

#include "nccl_device_lsa.h"
// Behind the addresses that it uses.
#include "nccl_device_copies.h"

// ---- GIN, and barriers over it: any arguments --------------------------------------------------

struct ncclGin_None {};
#define RONDO_SIGNAL_(name, ...) \
  struct ncclGin_##name {        \
    __VA_ARGS__;                 \
  };
#define RONDO_SIGNALS_(prefix)                                                       \
  RONDO_SIGNAL_(prefix##SignalInc, ncclGinSignal_t signal)                           \
  RONDO_SIGNAL_(prefix##SignalAdd, ncclGinSignal_t signal; uint64_t value)           \
  RONDO_SIGNAL_(prefix##VASignalInc, ncclWindow_t signalWindow; size_t signalOffset) \
  RONDO_SIGNAL_(prefix##VASignalAdd, ncclWindow_t signalWindow; size_t signalOffset; uint64_t value)
RONDO_SIGNALS_()
RONDO_SIGNALS_(Weak)
RONDO_SIGNALS_(Strong)
RONDO_SIGNAL_(CounterInc, ncclGinCounter_t counter)
RONDO_SIGNAL_(WeakCounterInc, ncclGinCounter_t counter)
#undef RONDO_SIGNALS_
#undef RONDO_SIGNAL_

#define RONDO_METHOD_(result, name, qualifiers)     \
  template <class... Arguments>                     \
  __device__ result name(Arguments...) qualifiers { \
    return rondo_device::refused<result>();         \
  }
// Those with a limit of cycles return a status.
#define RONDO_ACTION_(name, qualifiers) RONDO_METHOD_(ncclResult_t, name, qualifiers)

template <unsigned kBackends>
struct ncclGin_BackendMask {
  __device__ ncclGin_BackendMask(const ncclDevComm&, int,
                                 ncclGinResourceSharingMode = NCCL_GIN_RESOURCE_SHARING_GPU) {
    rondo_device::refuse();
  }
  RONDO_ACTION_(put, const)
  RONDO_ACTION_(putValue, const)
  RONDO_ACTION_(get, const)
  RONDO_ACTION_(signal, const)
  RONDO_ACTION_(flush, const)
  RONDO_ACTION_(flushAsync, const)
  RONDO_ACTION_(wait, const)
  RONDO_ACTION_(waitCounter, const)
  RONDO_ACTION_(waitSignal, const)
  RONDO_ACTION_(resetCounter, const)
  RONDO_ACTION_(resetSignal, const)
  RONDO_METHOD_(uint64_t, readCounter, const)
  RONDO_METHOD_(uint64_t, readSignal, const)
};
using ncclGin = ncclGin_BackendMask<~0u>;

#define RONDO_SESSION_(name)              \
  template <class Coop>                   \
  struct name {                           \
    template <class... Arguments>         \
    __device__ name(Coop, Arguments...) { \
      rondo_device::refuse();             \
    }                                     \
    name(const name&) = delete;           \
    RONDO_ACTION_(arrive, )               \
    RONDO_ACTION_(wait, )                 \
    RONDO_ACTION_(sync, )                 \
  };
RONDO_SESSION_(ncclGinBarrierSession)
RONDO_SESSION_(ncclBarrierSession)
#undef RONDO_SESSION_
#undef RONDO_METHOD_
#undef RONDO_ACTION_

// ---- Not there -------------------------------------------------------------------------------

#define RONDO_MISSING_(name, ...)                                \
  static_assert(rondo_device::Missing<__VA_ARGS__>::value, #name \
                " is not in Rondo's nccl_device.h. Compile this kernel with NVIDIA's header")
#define RONDO_MISSING_SESSION_(name) \
  template <class Coop>              \
  struct name {                      \
    RONDO_MISSING_(name, Coop);      \
  };
#define RONDO_MISSING_FUNCTION_(name)   \
  template <class... Arguments>         \
  __device__ void name(Arguments...) {  \
    RONDO_MISSING_(name, Arguments...); \
  }
RONDO_MISSING_SESSION_(ncclCftBarrierSession)
RONDO_MISSING_FUNCTION_(ncclLocalReduceSumCopy)
RONDO_MISSING_FUNCTION_(ncclLsaReduceMultimemCopy)
RONDO_MISSING_FUNCTION_(ncclLsaReduceSumMultimemCopy)
RONDO_MISSING_FUNCTION_(ncclMultimemCopy)
RONDO_MISSING_FUNCTION_(ncclMultimemReduceSum)
RONDO_MISSING_FUNCTION_(ncclMultimemReduceSumCopy)
RONDO_MISSING_FUNCTION_(ncclMultimemReduceSumLsaCopy)
RONDO_MISSING_FUNCTION_(ncclMultimemReduceSumMultimemCopy)
#undef RONDO_MISSING_FUNCTION_
#undef RONDO_MISSING_SESSION_
#undef RONDO_MISSING_

#endif
