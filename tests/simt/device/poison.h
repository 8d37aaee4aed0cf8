// SPDX-License-Identifier: Apache-2.0
// Content of fresh memory of the emulated GPU: garbage, so that no code relies on zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace rondo::simt {

// Fills only both ends, because large memory would take long.
inline void poison(std::byte* memory, std::size_t bytes) {
  constexpr int kGarbage = 0xcb;
  constexpr std::size_t kPoisoned = 1 << 20;
  std::memset(memory, kGarbage, std::min(bytes, kPoisoned));
  if (bytes > kPoisoned) {
    const std::size_t tail = std::min(bytes - kPoisoned, kPoisoned);
    std::memset(memory + bytes - tail, kGarbage, tail);
  }
}

}  // namespace rondo::simt
