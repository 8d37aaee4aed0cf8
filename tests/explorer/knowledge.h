// SPDX-License-Identifier: Apache-2.0
// Knowledge: which plain accesses happened before the current point of an actor. It is the
// explorer's exact, finite form of vector clocks.
//
// For each plain word only the newest write and each actor's newest read matter. Each of them is
// one bit. An actor, a store in flight and an atomic word carry the set of accesses that happened
// before them; an acquire joins sets. An access is a data race if an earlier conflicting access is
// missing from its set. Unlike clocks, sets of bits do not grow with time, so equal states stay
// equal.
#pragma once

#include <bitset>
#include <cstddef>

namespace rondo::explorer {

inline constexpr int kMaxActors = 3;
inline constexpr int kMaxPlainWords = 64;
inline constexpr int kEventsPerWord = 1 + kMaxActors;

using Knowledge = std::bitset<kMaxPlainWords * kEventsPerWord>;

constexpr std::size_t write_event(int plain_word) {
  return static_cast<std::size_t>(plain_word) * kEventsPerWord;
}
constexpr std::size_t read_event(int plain_word, int actor) {
  return write_event(plain_word) + 1 + static_cast<std::size_t>(actor);
}

}  // namespace rondo::explorer
