// What kernels that wait for other ranks tell the hosts: that a CTA has begun its part of a launch,
// and that it is over.
//
// Launches are numbered in device memory, so that replays of graphs count, too. By one thread of a
// CTA, in Control::progress of the channel that it plays. Guarantees: while a number is the newest
// that has begun on channel 0, its call stands still. Cost: a posted store; on channel 0 a fence
// beside it, for a thread that nobody waits for.
#pragma once

#include "kernels/cuda/kernel_wait.h"

namespace rondo::cuda {

// Of all calls until now, in their order: calls that differed leave a trace, however short they
// were.
RONDO_FN inline std::uint64_t digest_with(std::uint64_t digest, const CallRecord& call) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
  std::uint64_t words[2];
  __builtin_memcpy(words, &call, sizeof(words));
  digest = (digest ^ words[0]) * kOdd;
  digest = ((digest ^ digest >> 32) ^ words[1]) * kOdd;
  return digest ^ digest >> 29;
}

// launches: how many this rank has played, by channel; the digest lies before them.
RONDO_FN inline void say_begun(Control* control, int channel, const CallRecord& call,
                               std::uint64_t number, std::uint64_t* launches) {
  using device::Scope;
  if (channel == 0) {
    const std::uint64_t digest = digest_with(device::load(launches - 1), call);
    device::store(launches - 1, digest);
    device::store_relaxed<Scope::kSystem>(&control->begun_digest[number % 2], digest);
    write_record(&control->begun_call[number % 2], call);
    device::fence<Scope::kSystem>();
  }
  device::store_relaxed<Scope::kSystem>(&control->progress[channel].begun, number);
}

RONDO_FN inline void say_over(Control* control, int channel, std::uint64_t number) {
  device::store_relaxed<device::Scope::kSystem>(&control->progress[channel].done, number);
}

}  // namespace rondo::cuda
