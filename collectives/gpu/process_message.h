// ProcessMessage: a message between a rank of this process and one of another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collectives/call.h"
#include "collectives/watchdog/fault.h"

namespace rondo::gpu {

struct ProcessMessage {
  int from = 0, to = 0;
  CallRecord record;
  const void* send = nullptr;  // where this process sends,
  void* receive = nullptr;     // or else receives; both: between ranks of one device (by kernels)
  bool in_collective = false;  // has been announced
  bool by_driver = false;      // the stream's device may not touch the buffer (by streams)

  std::uint64_t bytes() const { return record.count * size_of(record.type); }
  bool is_within() const { return send != nullptr && receive != nullptr; }
};

// What rank `from` gives rank `to` in a gather, scatter or all-to-all, if anything. sender,
// receiver: their calls; null where the rank is elsewhere.
std::optional<ProcessMessage> message_between(int from, int to, const CallRecord& record,
                                              const Call* sender, const Call* receiver);

// The sends and receives of a rank's group. What it sends itself it receives in the same group:
// these are one, with both buffers, in their order.
Result<std::vector<ProcessMessage>> messages_of_group(int rank, std::span<const Call> calls,
                                                      Mismatch* mismatch);

}  // namespace rondo::gpu
