// SPDX-License-Identifier: Apache-2.0
// ProcessMessages: sends and receives between processes of a host with GPUs, through slots of the
// pair of ranks (message_slots.h). A kernel moves them if each process has GPUs of its own
// (messages_by_kernel.h), else streams that wait (messages_by_streams.h).
//
// Guarantees: if the two sizes of a message differ, the later rank gets an error. Cost: see these
// headers.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/calls/messages_by_kernel.h"
#include "collectives/gpu/calls/process_message.h"
#include "collectives/gpu/processes/messages_by_streams.h"

namespace rondo::gpu {

struct ProcessContext;

// Slots of a pair, made with its first message. A peer that cannot give slots any more will not
// send or receive either; the error names it.
Result<MessageSlots::Slots> slots_for(ProcessContext& context, const ProcessMessage& message);

class ProcessMessages {
 public:
  explicit ProcessMessages(ProcessContext& context);

  // One caller at a time in prepare(); ranks may enqueue at once.
  struct Prepared {
    MessagesByKernel::Launches launches;
    MessagesByStreams::Pieces pieces;
  };
  Result<Prepared> prepare(std::span<const ProcessMessage> messages, Mismatch* mismatch);
  Status enqueue(const Prepared& prepared, GpuStream stream);

 private:
  Status announce_message(const ProcessMessage& message, Mismatch* mismatch);

  ProcessContext& context_;
  std::vector<std::uint64_t> pair_messages_;  // [pair]: messages so far
  std::optional<MessagesByKernel> by_kernel_;
  MessagesByStreams by_streams_{context_};
};

}  // namespace rondo::gpu
