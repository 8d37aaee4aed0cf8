// SPDX-License-Identifier: Apache-2.0
// Access to the elements of a 16-byte vector with bit operations. After unrolling every index is a
// constant, so a vector stays in four registers.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"

namespace rondo::cuda {

template <class T>
RONDO_FN inline T bits_to(std::uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
RONDO_FN inline std::uint64_t to_bits(T value) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
RONDO_FN inline T get_element(const device::Vector& vector, int index) {
  if constexpr (sizeof(T) == 8) {
    return bits_to<T>(vector.word[2 * index] |
                      static_cast<std::uint64_t>(vector.word[2 * index + 1]) << 32);
  } else {
    constexpr int kPerWord = 4 / sizeof(T);
    return bits_to<T>(vector.word[index / kPerWord] >> (index % kPerWord * 8 * sizeof(T)));
  }
}

// Element `index` of the vector must be zero before.
template <class T>
RONDO_FN inline void put_element(device::Vector& vector, int index, T value) {
  const std::uint64_t bits = to_bits(value);
  if constexpr (sizeof(T) == 8) {
    vector.word[2 * index] = static_cast<std::uint32_t>(bits);
    vector.word[2 * index + 1] = static_cast<std::uint32_t>(bits >> 32);
  } else {
    constexpr int kPerWord = 4 / sizeof(T);
    vector.word[index / kPerWord] |= static_cast<std::uint32_t>(bits)
                                     << (index % kPerWord * 8 * sizeof(T));
  }
}

template <class T>
RONDO_FN inline const device::Vector* vector_at(const T* element) {
  return reinterpret_cast<const device::Vector*>(element);
}
template <class T>
RONDO_FN inline device::Vector* vector_at(T* element) {
  return reinterpret_cast<device::Vector*>(element);
}

}  // namespace rondo::cuda
