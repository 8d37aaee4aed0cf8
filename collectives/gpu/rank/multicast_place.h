// SPDX-License-Identifier: Apache-2.0
// Where kernels of NCCL's device API find multicast memory: 32 bits of pages behind a base that all
// windows of a communicator share.
//
// Guarantees: a base is never null, because programs take null for "no multicast memory"; base and
// page name exactly the address. Cost: arithmetic.
//
//   multicast_place(0x302000000, std::nullopt)   // base 0x1000, page 0x302000 - 1
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace rondo::gpu {

struct MulticastPlace {
  static constexpr std::uint64_t kPage = 4096;          // bytes
  static constexpr std::uint64_t kReach = kPage << 32;  // bytes behind a base
  std::uint64_t base;
  std::uint32_t page;
};

// base: of earlier windows; the first window has none, and sets it. Empty: no page has the address.
inline std::optional<MulticastPlace> multicast_place(std::uint64_t at,
                                                     std::optional<std::uint64_t> base) {
  constexpr std::uint64_t kPage = MulticastPlace::kPage, kReach = MulticastPlace::kReach;
  const std::uint64_t from = base ? *base : std::max(at / kReach * kReach, kPage);
  if (at % kPage != 0 || at < from || at - from >= kReach) return std::nullopt;
  return MulticastPlace{from, static_cast<std::uint32_t>((at - from) / kPage)};
}

}  // namespace rondo::gpu
