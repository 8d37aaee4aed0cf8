// Futex calls on words in memory that processes share. Every wait has a time limit.
#pragma once

#include <cstdint>
#include <span>

namespace rondo {

// Sleeps while *word == expected, at most nanoseconds; returns early on a wake or a signal.
void futex_wait(std::uint32_t* word, std::uint32_t expected, std::int64_t nanoseconds);
void futex_wake_all(std::uint32_t* word);

struct FutexWait {
  std::uint32_t* word;
  std::uint32_t expected;
};
// Sleeps until one of at most 128 words changes. Kernels before 5.16 have no futex_waitv: there the
// first word is watched alone, at most a millisecond at a time.
void futex_wait_any(std::span<const FutexWait> words, std::int64_t nanoseconds);

}  // namespace rondo
