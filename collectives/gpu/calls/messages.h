// SPDX-License-Identifier: Apache-2.0
// ProcessMessage: a message between a rank of this process and a rank of another one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/types.h"
#include "collectives/context/call.h"
#include "collectives/faults/fault.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/message_slots.h"
#include "collectives/gpu/plan/message_launches.h"
#include "kernels/cuda/counted_message_args.h"

namespace rondo::gpu {

struct ProcessMessage {
  int from = 0, to = 0;
  CallRecord record;
  const void* send = nullptr;  // set if this process sends
  void* receive = nullptr;     // set if it receives; both: between ranks of one device (by kernels)
  bool in_collective = false;  // it has been announced
  // Its size is in device memory, and these are the whole buffers of ranks here; null: not so.
  const cuda::DeviceCounts *sender = nullptr, *receiver = nullptr;

  std::uint64_t bytes() const { return record.count * size_of(record.type); }
  bool is_within() const { return send != nullptr && receive != nullptr; }
  bool has_counts() const { return sender != nullptr || receiver != nullptr; }
  // Whether both sides publish their records and compare them. Counted ones are in a collective,
  // but rondoAllToAllv on the other side is messages.
  bool is_announced() const {
    return from != to && !is_within() && (!in_collective || has_counts());
  }
};

// What the ranks `here` send and receive in a gather, scatter or all-to-all of `ranks` ranks.
// call_of: of a rank; null: the rank is not here.
std::vector<ProcessMessage> messages_of_collective(const CallRecord& record, int ranks,
                                                   std::span<const int> here,
                                                   const std::function<const Call*(int)>& call_of);

// The same of an all-to-all whose counts are in device memory, also to the ranks themselves. The
// calls must live until the messages are prepared.
std::vector<ProcessMessage> messages_of_counts(const CallRecord& record, int ranks,
                                               std::span<const int> here,
                                               const std::function<const Call*(int)>& call_of);

// The sends and receives of a rank's group. A message of the rank to itself is sent and received in
// the same group; these two become one message with both buffers, in their order.
Result<std::vector<ProcessMessage>> messages_of_group(int rank, std::span<const Call> calls,
                                                      Mismatch* mismatch);

// MessagesByKernel: messages of ranks with GPUs of their own to ranks of other processes and hosts.
// Everything that one device's ranks send and receive in a group is one kernel
// (kernels/cuda/messages.h), or a few if it is very much (message_launches.h).
//
// Guarantees: a call waits for no work of the device, not even for the first message of a pair.
// Cost: one launch per group; for the first message of a pair its memory (message_slots.h).
struct PlannedMessages : MessageLaunch {
  std::optional<cuda::CountedMessageArgs> counted;  // in place of `args`
};

Status enqueue_messages(std::span<const PlannedMessages> launches, GpuStream stream);

class MessagesByKernel {
 public:
  struct Options {
    DeviceConnections* connections;  // with words for messages
    int max_ctas;                    // per launch
    std::function<bool(int rank)> is_here;
    // Called with the first message of a pair.
    std::function<Result<MessageSlots::Slots>(const ProcessMessage&)> slots_for;
    // Called if the messages go over the network. `end`: a channel as its proxy sees it; its slots
    // are in `block` or, if that is null, on the host. May be empty.
    std::function<void(int from, int to, int channel, const Connection& end,
                       const DirectBlock& block)>
        carry = {};
  };
  explicit MessagesByKernel(Options options) : options_(std::move(options)) {}

  // Messages of ranks of one device, all with counts in device memory or none. One caller at a time
  // in prepare(); ranks may enqueue at once.
  using Launches = std::vector<PlannedMessages>;
  // peer: the rank that an error is about, if any.
  Result<Launches> prepare(std::span<const ProcessMessage> messages, int* peer = nullptr);
  Status enqueue(const Launches& launches, GpuStream stream) const {
    return enqueue_messages(launches, stream);
  }

 private:
  Result<MessageShape> shape_for(const ProcessMessage& message);

  void carry(const ProcessMessage& message, const MessageSlots::Slots& slots,
             const MessageShape& shape) const;

  const Options options_;
  std::map<std::pair<int, int>, MessageShape> shapes_;  // of pairs with known channels
};

// Messages between ranks of one device, whose sizes are in device memory. report_at: where a kernel
// reports a wrong count of this rank.
std::vector<PlannedMessages> counted_copies(
    std::span<const ProcessMessage> messages, int ranks, int max_ctas,
    const std::function<cuda::Control*(int rank)>& report_at);

}  // namespace rondo::gpu
