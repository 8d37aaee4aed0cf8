// SPDX-License-Identifier: Apache-2.0
// MessageLaunches: plans messages of the ranks of one device as launches of the kernel of messages
// (kernels/cuda/messages.h): splits them among the channels of their pairs, orders them, and
// assigns them to CTAs.
//
// All messages have one order, which is the same on both sides: by distance (to - from, modulo the
// ranks), by sender, channel, and the order in the pair. Launches, and the items of every CTA,
// follow that order. So the first unfinished message has nothing before it that waits, on either
// side: any number of messages makes progress, in any number of launches and on any number of CTAs.
// Sends and receives have separate CTAs if there are two, so that they run at once. If there are
// four, messages over a network also have separate CTAs, so that their waits delay no message
// within the host. A pure function of the messages and the pairs' shapes. Cost: a sort.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/planner/message_shape.h"
#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// A message between a rank of the device and a rank elsewhere, or between two of its ranks.
struct MessageMove {
  int from = 0, to = 0;
  const void* send = nullptr;  // null: the sender is elsewhere
  void* receive = nullptr;     // null: the receiver is elsewhere
  std::uint64_t bytes = 0;
  MessageShape shape = {};
};

struct MessageLaunch {
  cuda::MessageArgs args;  // without its stations
  std::vector<int> ranks;  // one station each
  int ctas = 0;
  unsigned threads = 0;  // per CTA
};

std::vector<MessageLaunch> plan_message_launches(std::span<const MessageMove> moves, int ranks,
                                                 int max_ctas);

}  // namespace rondo::gpu
