// SPDX-License-Identifier: Apache-2.0
// fnv1a() over bytes, and counter-based random numbers: the same on every machine, without state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace train {

inline constexpr std::uint64_t kFnvStart = 14695981039346656037u;

// A change of one byte always changes the result, because every step is a bijection of the hash.
inline std::uint64_t fnv1a(const void* bytes, std::size_t size, std::uint64_t hash = kFnvStart) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ at[i]) * 1099511628211u;
  return hash;
}

// Element `index` of the random sequence of `seed` (splitmix64).
inline std::uint64_t random_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Uniform in [0, 1).
inline double uniform_at(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(random_at(seed, index) >> 11) * 0x1p-53;
}

}  // namespace train
