// Knowledge: who knows of which plain access; the explorer's exact and finite form of vector
// clocks.
//
// Of every plain word only the newest write and the newest read by each actor matter. Each of these
// is one bit. An actor, a store in flight and an atomic word carry the set of those that happened
// before them; acquiring joins sets. An access that must come after another and does not know of it
// is a data race. Sets of bits, unlike clocks, do not grow with time, so equal states stay equal.
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
