// SPDX-License-Identifier: Apache-2.0
// Grouped sends and receives: not an algorithm but a list of messages, polled in turn.
//
// Messages of one direction between two ranks keep their order. Everything else progresses
// independently, so no posting order can deadlock. A message travels in slots. Each slot carries
// its length, which must equal what the receiver expects. So a longer or shorter message is a
// mismatch, never an overrun. Guarantees: returns when all bytes have left (sends) or arrived
// (receives). Cost: one copy into and one copy out of a slot per byte.
#pragma once

#include <span>

#include "kernels/host/host_rank.h"
#include "kernels/host/slots.h"

namespace rondo::host {

struct Message {
  CallRecord record;  // kSend or kRecv, count, type; or the collective that it is a part of
  std::byte* buffer = nullptr;  // read for a send, written for a receive
  std::size_t bytes = 0;
  Connection* connection = nullptr;
  bool is_send = false;
  std::uint32_t tag = 0;  // the collective's tag, see HostRank
  // Progress.
  std::size_t done_bytes = 0;
  bool finished = false;
};

// `messages`: in posting order. Returns false if the wait was aborted.
bool run_messages(HostRank& rank, std::span<Message> messages);

}  // namespace rondo::host
