// MessageLaunches: messages of the ranks of one device as launches of the kernel of messages
// (kernels/cuda/messages.h): cut among the channels of their pairs, put in an order, dealt to CTAs.
//
// Every message has a place in one order, which is the same on both sides: by how far it goes
// (to - from, modulo the ranks), by sender, channel, and the order in the pair. Launches, and the
// items of every CTA, are in that order; so of all messages that are not over the first one has
// nothing before it that waits, on neither side: any number of messages moves, in as many launches
// and on as few CTAs as may be. Sends and receives have CTAs of their own where there are two, so
// that they run at once; where there are four, so have those over a network, whose waits keep back
// no message within the host. A pure function of what is added, and of the pairs' shapes. Cost: a
// sort.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/planner/message_shape.h"
#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// A message of a rank of the device with a rank elsewhere, or between two of its ranks.
struct MessageMove {
  int from = 0, to = 0;
  const void* send = nullptr;  // null: the sender is elsewhere
  void* receive = nullptr;     // null: the receiver is
  std::uint64_t bytes = 0;
  MessageShape shape = {};
};

struct MessageLaunch {
  cuda::MessageArgs args;  // but for its stations
  std::vector<int> ranks;  // a station each
  int ctas = 0;
  unsigned threads = 0;  // of a CTA
};

std::vector<MessageLaunch> plan_message_launches(std::span<const MessageMove> moves, int ranks,
                                                 int max_ctas);

}  // namespace rondo::gpu
