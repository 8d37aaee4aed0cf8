// SPDX-License-Identifier: Apache-2.0
// Loads and stores of 1 to 8 bytes at real addresses, with the host's atomics where an order is
// requested. Weak ones are ordinary accesses, so that TSan reports unordered ones.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/simt_hooks.h"

namespace rondo::simt {
namespace raw {

// TSan does not model fences, so relaxed accesses carry the order that a nearby fence would give.
#if defined(__SANITIZE_THREAD__)
inline constexpr int kRelaxedLoad = __ATOMIC_ACQUIRE, kRelaxedStore = __ATOMIC_RELEASE;
#else
inline constexpr int kRelaxedLoad = __ATOMIC_RELAXED, kRelaxedStore = __ATOMIC_RELAXED;
#endif

template <class T>
void load(void* to, const void* at, Order order) {
  const T* const from = static_cast<const T*>(at);
  T value;
  switch (order) {
    case Order::kWeak:
      value = *from;
      break;
    case Order::kRelaxed:
      value = __atomic_load_n(from, kRelaxedLoad);
      break;
    default:
      value = __atomic_load_n(from, __ATOMIC_ACQUIRE);
  }
  std::memcpy(to, &value, sizeof(T));
}

template <class T>
void store(void* at, const void* from, Order order) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  T* const to = static_cast<T*>(at);
  switch (order) {
    case Order::kWeak:
      *to = value;
      break;
    case Order::kRelaxed:
      __atomic_store_n(to, value, kRelaxedStore);
      break;
    default:
      __atomic_store_n(to, value, __ATOMIC_RELEASE);
  }
}

}  // namespace raw

// `at` is aligned to `bytes`, which is 1, 2, 4 or 8.
inline void raw_load(void* to, const void* at, unsigned bytes, Order order) {
  switch (bytes) {
    case 1:
      return raw::load<std::uint8_t>(to, at, order);
    case 2:
      return raw::load<std::uint16_t>(to, at, order);
    case 4:
      return raw::load<std::uint32_t>(to, at, order);
    default:
      return raw::load<std::uint64_t>(to, at, order);
  }
}

inline void raw_store(void* at, const void* from, unsigned bytes, Order order) {
  switch (bytes) {
    case 1:
      return raw::store<std::uint8_t>(at, from, order);
    case 2:
      return raw::store<std::uint16_t>(at, from, order);
    case 4:
      return raw::store<std::uint32_t>(at, from, order);
    default:
      return raw::store<std::uint64_t>(at, from, order);
  }
}

}  // namespace rondo::simt
