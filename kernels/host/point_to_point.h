// Grouped sends and receives: not an algorithm but a list of messages, polled in turn.
//
// Messages of one direction between two ranks keep their order; everything else progresses
// independently, so no order of posting can deadlock. A message travels as slots; its first slot
// tells its length, and every slot is bounded by what the receiver expects: a longer or shorter
// message is a mismatch, never an overrun. Guarantees: returns when all bytes have left (sends) or
// arrived (receives). Cost: one copy into and one out of a slot per byte.
#pragma once

#include <span>

#include "kernels/host/host_rank.h"
#include "kernels/host/slots.h"

namespace rondo::host {

struct Message {
  CallRecord record;  // kSend or kRecv, count, type; or the collective of which it is a part
  std::byte* buffer = nullptr;  // read for a send, written for a receive
  std::size_t bytes = 0;
  Connection* connection = nullptr;
  bool is_send = false;
  std::uint32_t tag = 0;  // of the collective, see HostRank
  // Progress.
  std::size_t done_bytes = 0;
  bool finished = false;
};

// Messages in the order in which they were posted. False if the wait was ended.
bool run_messages(HostRank& rank, std::span<Message> messages);

}  // namespace rondo::host
