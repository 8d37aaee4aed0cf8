// SPDX-License-Identifier: Apache-2.0
// The record that channel 0 of a rank's kernels writes for the host when a launch begins: its
// number, its call, and a digest of all calls so far.
//
// The words are in host memory, in two alternating records. Nothing orders the stores, because a
// fence would cost the kernel a round trip over PCIe. A check word over all words shows whether
// they belong together, so the host takes the newest complete record. Guarantees: what
// newest_launch() returns was written by one launch (wrong with probability 2^-64). Cost: five
// posted stores, no wait.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/atomics.h"
#include "base/types.h"

namespace rondo::cuda {

struct BegunLaunch {
  std::uint64_t call[2];  // a CallRecord's words
  std::uint64_t number;   // from 1
  std::uint64_t digest;
  std::uint64_t check;
};

// Adds a word to `digest`. Used by kernels and by the host.
constexpr std::uint64_t digest_with(std::uint64_t digest, std::uint64_t word) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
  digest = (digest ^ word) * kOdd;
  return digest ^ digest >> 32;
}
constexpr std::uint64_t check_of(const BegunLaunch& launch) {
  return digest_with(
      digest_with(digest_with(digest_with(1, launch.call[0]), launch.call[1]), launch.number),
      launch.digest);
}

struct NewestLaunch {
  CallRecord call;
  std::uint64_t number, digest;
};
inline std::optional<NewestLaunch> newest_launch(const BegunLaunch (&records)[2]) {
  std::optional<NewestLaunch> newest;
  for (const BegunLaunch& one : records) {
    const auto word = [](const std::uint64_t& at) { return HostAtomics::load_acquire(at); };
    const BegunLaunch seen{{word(one.call[0]), word(one.call[1])},
                           word(one.number),
                           word(one.digest),
                           word(one.check)};
    if (seen.number == 0 || seen.check != check_of(seen)) continue;
    if (newest && newest->number > seen.number) continue;
    struct Words {
      std::uint64_t word[2];
    };
    newest = NewestLaunch{std::bit_cast<CallRecord>(Words{{seen.call[0], seen.call[1]}}),
                          seen.number, seen.digest};
  }
  return newest;
}

}  // namespace rondo::cuda
