// simulate_messages: what messages between ranks take on a machine, launch by launch as the kernel
// of messages moves them, in virtual time.
//
// A rank's launches follow each other; the CTAs of one play their items at once, each begins its
// own in order, has a window of them open, and moves a slot of the first one that can go on. Where
// it waits for several, it goes on with the one that was known to be ready first. Both ends of a
// message must cut it alike. Nothing is extrapolated: callers may simulate fewer bytes and
// extrapolate themselves. Cost: some 300 ns a slot of every message.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

// What one channel of a pair moves of a message, at one of its ends.
struct SimMessage {
  int peer = 0;  // the rank itself: a copy
  bool sends = false;
  int channel = 0;
  std::uint64_t bytes = 0;
  std::uint64_t slot_bytes = 0;  // copies have none
};

struct SimMessageLaunch {
  std::vector<std::vector<SimMessage>> ctas;
};

struct SimMessageCall {
  std::vector<std::vector<SimMessageLaunch>> launches;  // by rank
  int slots = 8;                                        // of a channel
  int window = 1;                                       // messages that a CTA has open at once
  VerbCost cost;                                        // of a CTA
  double next_launch_ns = 0;                            // behind one of the same rank
};

// kInvalidArgument: fewer than two ranks, slots that cannot be simulated, no window.
// kInternalError: a deadlock of the ranks, or messages that nobody receives.
Result<SimResult> simulate_messages(const Machine& machine, const SimMessageCall& call);

}  // namespace rondo::sim
