// SPDX-License-Identifier: Apache-2.0
// simulate_messages: the time of point-to-point messages between ranks on a machine, launch by
// launch as the message kernel moves them, in virtual time.
//
// A rank's launches run one after another. The CTAs of a launch run at once. Each CTA opens its own
// items in order, keeps a window of them open, and moves one slot of the first item that is ready.
// If none is ready, it continues with the one that is known to be ready first. Both ends of a
// message must split it equally. Nothing is extrapolated: callers may simulate fewer bytes and
// extrapolate themselves. Cost: about 300 ns per slot of every message.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

// The part of a message that one channel of a pair moves, at one of its ends.
struct SimMessage {
  int peer = 0;  // equal to the rank: a copy
  bool sends = false;
  int channel = 0;
  std::uint64_t bytes = 0;
  std::uint64_t slot_bytes = 0;  // unused for copies
};

struct SimMessageLaunch {
  std::vector<std::vector<SimMessage>> ctas;
};

struct SimMessageCall {
  std::vector<std::vector<SimMessageLaunch>> launches;  // by rank
  int slots = 8;                                        // per channel
  int window = 1;                                       // messages that a CTA has open at once
  VerbCost cost;                                        // per CTA
  double next_launch_ns = 0;                            // after a launch of the same rank
};

// kInvalidArgument: fewer than two ranks, an unsupported number of slots, or no window.
// kInternalError: the ranks deadlock, or messages are not received.
Result<SimResult> simulate_messages(const Machine& machine, const SimMessageCall& call);

}  // namespace rondo::sim
