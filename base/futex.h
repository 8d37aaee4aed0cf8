// SPDX-License-Identifier: Apache-2.0
// Futex calls on words in memory that several processes share. Every wait has a time limit.
#pragma once

#include <cstdint>
#include <span>

namespace rondo {

// Sleeps while *word == expected, at most `nanoseconds`; returns early on a wake or a signal.
void futex_wait(std::uint32_t* word, std::uint32_t expected, std::int64_t nanoseconds);
void futex_wake_all(std::uint32_t* word);

struct FutexWait {
  std::uint32_t* word;
  std::uint32_t expected;
};
// Sleeps until one of at most 128 words changes, at most `nanoseconds`. Linux before 5.16 has no
// futex_waitv: there it watches only the first word, for at most one millisecond.
void futex_wait_any(std::span<const FutexWait> words, std::int64_t nanoseconds);

}  // namespace rondo
