// SPDX-License-Identifier: Apache-2.0
// Access to the caller's own buffers for protocols whose lines ignore alignment: at most 8 bytes at
// a time.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/elements.h"

namespace rondo::cuda {

inline constexpr unsigned kOwnBytes = 8;

// `valid` bytes (a multiple of T's size, at most 8) at any address that is aligned for T.
template <class T>
RONDO_FN inline std::uint64_t read_own(std::uint64_t at, unsigned valid) {
  if (at % kOwnBytes == 0 && valid == kOwnBytes)
    return device::load_once(reinterpret_cast<const std::uint64_t*>(at));
  std::uint64_t data = 0;
  RONDO_NO_UNROLL
  for (unsigned b = 0; b < valid; b += sizeof(T))
    data |= to_bits(device::load(reinterpret_cast<const T*>(at + b))) << 8 * b;
  return data;
}

template <class T>
RONDO_FN inline void write_own(std::uint64_t at, unsigned valid, std::uint64_t data) {
  if (at % kOwnBytes == 0 && valid == kOwnBytes)
    return device::store_once(reinterpret_cast<std::uint64_t*>(at), data);
  RONDO_NO_UNROLL
  for (unsigned b = 0; b < valid; b += sizeof(T))
    device::store(reinterpret_cast<T*>(at + b), bits_to<T>(data >> 8 * b));
}

}  // namespace rondo::cuda
