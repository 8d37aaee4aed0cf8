// SPDX-License-Identifier: Apache-2.0
// The accessors of device.h in PTX (sm_70 and later). Included by device.h only.
#pragma once

namespace rondo::device {

__device__ __forceinline__ unsigned thread_index() { return threadIdx.x; }
__device__ __forceinline__ unsigned thread_count() { return blockDim.x; }
__device__ __forceinline__ unsigned cta_index() { return blockIdx.x; }
__device__ __forceinline__ unsigned cta_count() { return gridDim.x; }

// Hides a value from the optimizer. Otherwise it would turn one index into a separate pointer, of
// two registers, for every array that the index is used with.
__device__ __forceinline__ std::uint64_t opaque(std::uint64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}

namespace ptx {

// The register type that carries a value of `bytes` bytes.
template <unsigned bytes>
struct Register;
template <>
struct Register<1> {
  using Type = std::uint16_t;
};
template <>
struct Register<2> {
  using Type = std::uint16_t;
};
template <>
struct Register<4> {
  using Type = std::uint32_t;
};
template <>
struct Register<8> {
  using Type = std::uint64_t;
};
template <>
struct Register<16> {
  using Type = Vector;
};

template <class T>
__device__ __forceinline__ T from_register(typename Register<sizeof(T)>::Type value) {
  T result;
  __builtin_memcpy(&result, &value, sizeof(T));
  return result;
}
template <class T>
__device__ __forceinline__ typename Register<sizeof(T)>::Type to_register(T value) {
  typename Register<sizeof(T)>::Type result{};
  __builtin_memcpy(&result, &value, sizeof(T));
  return result;
}

template <class T>
__device__ __forceinline__ std::size_t global(T* pointer) {
  return __cvta_generic_to_global(const_cast<std::remove_const_t<T>*>(pointer));
}

// The five widths of one load or store instruction.
#define RONDO_PTX_LOADS(name, instruction, ...)                                         \
  template <unsigned bytes>                                                             \
  __device__ __forceinline__ auto name(std::size_t at) {                                \
    typename Register<bytes>::Type v;                                                   \
    if constexpr (bytes == 1) {                                                         \
      asm volatile(instruction ".u8 %0, [%1];" : "=h"(v) : "l"(at) : __VA_ARGS__);      \
    } else if constexpr (bytes == 2) {                                                  \
      asm volatile(instruction ".u16 %0, [%1];" : "=h"(v) : "l"(at) : __VA_ARGS__);     \
    } else if constexpr (bytes == 4) {                                                  \
      asm volatile(instruction ".u32 %0, [%1];" : "=r"(v) : "l"(at) : __VA_ARGS__);     \
    } else if constexpr (bytes == 8) {                                                  \
      asm volatile(instruction ".u64 %0, [%1];" : "=l"(v) : "l"(at) : __VA_ARGS__);     \
    } else {                                                                            \
      asm volatile(instruction ".v4.u32 {%0, %1, %2, %3}, [%4];"                        \
                   : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) \
                   : "l"(at)                                                            \
                   : __VA_ARGS__);                                                      \
    }                                                                                   \
    return v;                                                                           \
  }
#define RONDO_PTX_STORES(name, instruction, ...)                                            \
  template <unsigned bytes>                                                                 \
  __device__ __forceinline__ void name(std::size_t at, typename Register<bytes>::Type v) {  \
    if constexpr (bytes == 1) {                                                             \
      asm volatile(instruction ".u8 [%0], %1;" ::"l"(at), "h"(v) : __VA_ARGS__);            \
    } else if constexpr (bytes == 2) {                                                      \
      asm volatile(instruction ".u16 [%0], %1;" ::"l"(at), "h"(v) : __VA_ARGS__);           \
    } else if constexpr (bytes == 4) {                                                      \
      asm volatile(instruction ".u32 [%0], %1;" ::"l"(at), "r"(v) : __VA_ARGS__);           \
    } else if constexpr (bytes == 8) {                                                      \
      asm volatile(instruction ".u64 [%0], %1;" ::"l"(at), "l"(v) : __VA_ARGS__);           \
    } else {                                                                                \
      asm volatile(instruction ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]), \
                   "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])                           \
                   : __VA_ARGS__);                                                          \
    }                                                                                       \
  }

RONDO_PTX_LOADS(load_weak, "ld.global", "memory")
RONDO_PTX_LOADS(load_once, "ld.global.L1::no_allocate", "memory")
RONDO_PTX_STORES(store_weak, "st.global", "memory")
RONDO_PTX_STORES(store_once, "st.global.L1::no_allocate", "memory")
RONDO_PTX_LOADS(relaxed_cta, "ld.relaxed.cta.global", "memory")
RONDO_PTX_LOADS(relaxed_gpu, "ld.relaxed.gpu.global", "memory")
RONDO_PTX_LOADS(relaxed_sys, "ld.relaxed.sys.global", "memory")
RONDO_PTX_LOADS(acquire_cta, "ld.acquire.cta.global", "memory")
RONDO_PTX_LOADS(acquire_gpu, "ld.acquire.gpu.global", "memory")
RONDO_PTX_LOADS(acquire_sys, "ld.acquire.sys.global", "memory")
RONDO_PTX_STORES(put_relaxed_cta, "st.relaxed.cta.global", "memory")
RONDO_PTX_STORES(put_relaxed_gpu, "st.relaxed.gpu.global", "memory")
RONDO_PTX_STORES(put_relaxed_sys, "st.relaxed.sys.global", "memory")
RONDO_PTX_STORES(put_release_cta, "st.release.cta.global", "memory")
RONDO_PTX_STORES(put_release_gpu, "st.release.gpu.global", "memory")
RONDO_PTX_STORES(put_release_sys, "st.release.sys.global", "memory")
#undef RONDO_PTX_LOADS
#undef RONDO_PTX_STORES

}  // namespace ptx

template <class T>
__device__ __forceinline__ T load(const T* from) {
  return ptx::from_register<T>(ptx::load_weak<sizeof(T)>(ptx::global(from)));
}
template <class T>
__device__ __forceinline__ T load_once(const T* from) {
  return ptx::from_register<T>(ptx::load_once<sizeof(T)>(ptx::global(from)));
}
template <class T>
__device__ __forceinline__ void store(T* at, T value) {
  ptx::store_weak<sizeof(T)>(ptx::global(at), ptx::to_register(value));
}
template <class T>
__device__ __forceinline__ void store_once(T* at, T value) {
  ptx::store_once<sizeof(T)>(ptx::global(at), ptx::to_register(value));
}

__device__ __forceinline__ void prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(ptx::global(from)));
}

template <Scope scope, class T>
__device__ __forceinline__ T load_relaxed(const T* from) {
  const std::size_t at = ptx::global(from);
  if constexpr (scope == Scope::kCta) {
    return ptx::from_register<T>(ptx::relaxed_cta<sizeof(T)>(at));
  } else if constexpr (scope == Scope::kDevice) {
    return ptx::from_register<T>(ptx::relaxed_gpu<sizeof(T)>(at));
  } else {
    return ptx::from_register<T>(ptx::relaxed_sys<sizeof(T)>(at));
  }
}
template <Scope scope, class T>
__device__ __forceinline__ T load_acquire(const T* from) {
  const std::size_t at = ptx::global(from);
  if constexpr (scope == Scope::kCta) {
    return ptx::from_register<T>(ptx::acquire_cta<sizeof(T)>(at));
  } else if constexpr (scope == Scope::kDevice) {
    return ptx::from_register<T>(ptx::acquire_gpu<sizeof(T)>(at));
  } else {
    return ptx::from_register<T>(ptx::acquire_sys<sizeof(T)>(at));
  }
}
template <Scope scope, class T>
__device__ __forceinline__ void store_relaxed(T* to, T value) {
  const std::size_t at = ptx::global(to);
  if constexpr (scope == Scope::kCta) {
    ptx::put_relaxed_cta<sizeof(T)>(at, ptx::to_register(value));
  } else if constexpr (scope == Scope::kDevice) {
    ptx::put_relaxed_gpu<sizeof(T)>(at, ptx::to_register(value));
  } else {
    ptx::put_relaxed_sys<sizeof(T)>(at, ptx::to_register(value));
  }
}
template <Scope scope, class T>
__device__ __forceinline__ void store_release(T* to, T value) {
  const std::size_t at = ptx::global(to);
  if constexpr (scope == Scope::kCta) {
    ptx::put_release_cta<sizeof(T)>(at, ptx::to_register(value));
  } else if constexpr (scope == Scope::kDevice) {
    ptx::put_release_gpu<sizeof(T)>(at, ptx::to_register(value));
  } else {
    ptx::put_release_sys<sizeof(T)>(at, ptx::to_register(value));
  }
}

__device__ __forceinline__ Pair load_pair(const Pair* from) {
  Pair pair;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.half[0]), "=l"(pair.half[1])
               : "l"(ptx::global(from))
               : "memory");
  return pair;
}
__device__ __forceinline__ void store_pair(Pair* to, Pair pair) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(ptx::global(to)),
               "l"(pair.half[0]), "l"(pair.half[1])
               : "memory");
}

__device__ __forceinline__ void store_line(Pair* to, Pair pair) {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  if (to != nullptr) store_pair(to, pair);
}

template <Scope scope>
__device__ __forceinline__ void fence() {
  if constexpr (scope == Scope::kCta) {
    asm volatile("fence.acq_rel.cta;" ::: "memory");
  } else if constexpr (scope == Scope::kDevice) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  } else {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  }
}

// 4 or 8 bytes.
#define RONDO_PTX_ATOMIC(name, operation)                                  \
  template <Scope scope, class T>                                          \
  __device__ __forceinline__ T name(T* to, T value) {                      \
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);                       \
    const std::size_t at = ptx::global(to);                                \
    T old;                                                                 \
    if constexpr (sizeof(T) == 4 && scope == Scope::kSystem) {             \
      asm volatile("atom.relaxed.sys.global." operation "32 %0, [%1], %2;" \
                   : "=r"(old)                                             \
                   : "l"(at), "r"(value)                                   \
                   : "memory");                                            \
    } else if constexpr (sizeof(T) == 8 && scope == Scope::kSystem) {      \
      asm volatile("atom.relaxed.sys.global." operation "64 %0, [%1], %2;" \
                   : "=l"(old)                                             \
                   : "l"(at), "l"(value)                                   \
                   : "memory");                                            \
    } else if constexpr (sizeof(T) == 4) {                                 \
      asm volatile("atom.relaxed.gpu.global." operation "32 %0, [%1], %2;" \
                   : "=r"(old)                                             \
                   : "l"(at), "r"(value)                                   \
                   : "memory");                                            \
    } else {                                                               \
      asm volatile("atom.relaxed.gpu.global." operation "64 %0, [%1], %2;" \
                   : "=l"(old)                                             \
                   : "l"(at), "l"(value)                                   \
                   : "memory");                                            \
    }                                                                      \
    return old;                                                            \
  }
RONDO_PTX_ATOMIC(add_relaxed, "add.u")
RONDO_PTX_ATOMIC(exchange_relaxed, "exch.b")
#undef RONDO_PTX_ATOMIC

// Dynamic shared memory, by byte offset.
extern __shared__ Vector rondo_dynamic_shared[];

template <class T>
__device__ __forceinline__ T load_shared(std::uint32_t offset) {
  return *reinterpret_cast<volatile const T*>(reinterpret_cast<char*>(rondo_dynamic_shared) +
                                              offset);
}
template <class T>
__device__ __forceinline__ T load_shared_late(std::uint32_t offset) {
  return load_shared<T>(offset);
}
template <class T>
__device__ __forceinline__ void store_shared(std::uint32_t offset, T value) {
  *reinterpret_cast<volatile T*>(reinterpret_cast<char*>(rondo_dynamic_shared) + offset) = value;
}

// Not .aligned (bar.sync is): the threads of a warp may arrive one by one, as after their own
// waits, and different kinds of warps may arrive from different code.
__device__ __forceinline__ void barrier() { asm volatile("barrier.sync 0;" ::: "memory"); }
__device__ __forceinline__ void sync_warp() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
__device__ __forceinline__ std::uint32_t shuffle(std::uint32_t value, unsigned from_lane) {
  std::uint32_t result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=r"(result)
               : "r"(value), "r"(from_lane));
  return result;
}
__device__ __forceinline__ std::uint32_t ballot(bool condition) {
  return __ballot_sync(0xffffffffu, condition);
}
// `word` must not be 0.
__device__ __forceinline__ unsigned lowest_bit(std::uint32_t word) {
  return static_cast<unsigned>(__ffs(static_cast<int>(word))) - 1;
}

__device__ __forceinline__ std::uint64_t timer_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ void nap(unsigned nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}
__device__ __forceinline__ void spin() {}

}  // namespace rondo::device
