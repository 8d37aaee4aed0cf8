// SPDX-License-Identifier: Apache-2.0
// Random: the only source of randomness in the emulated GPU, so that a seed repeats a run.
// SplitMix64: 2 ns a number; all seeds are equally good.
#pragma once

#include <cstdint>

namespace rondo::simt {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 <= result < limit; limit must not be 0.
  std::uint64_t below(std::uint64_t limit) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * limit) >> 64);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace rondo::simt
