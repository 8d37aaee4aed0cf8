// SPDX-License-Identifier: Apache-2.0
// ProcessMessage: a message between a rank of this process and a rank of another one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collectives/context/call.h"
#include "collectives/faults/fault.h"

namespace rondo::gpu {

struct ProcessMessage {
  int from = 0, to = 0;
  CallRecord record;
  const void* send = nullptr;  // set if this process sends
  void* receive = nullptr;     // set if it receives; both: between ranks of one device (by kernels)
  bool in_collective = false;  // it has been announced

  std::uint64_t bytes() const { return record.count * size_of(record.type); }
  bool is_within() const { return send != nullptr && receive != nullptr; }
};

// What the ranks `here` send and receive in a gather, scatter or all-to-all of `ranks` ranks.
// call_of: of a rank; null: the rank is not here.
std::vector<ProcessMessage> messages_of_collective(const CallRecord& record, int ranks,
                                                   std::span<const int> here,
                                                   const std::function<const Call*(int)>& call_of);

// The sends and receives of a rank's group. A message of the rank to itself is sent and received in
// the same group; these two become one message with both buffers, in their order.
Result<std::vector<ProcessMessage>> messages_of_group(int rank, std::span<const Call> calls,
                                                      Mismatch* mismatch);

}  // namespace rondo::gpu
