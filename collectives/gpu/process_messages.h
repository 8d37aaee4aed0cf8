// ProcessMessages: sends and receives between processes with GPUs of one host, by slots of the pair
// of ranks (message_slots.h): a kernel where each process has GPUs of its own
// (messages_by_kernel.h), else streams that wait (messages_by_streams.h).
//
// Guarantees: a message whose sizes differ is an error of the later rank. Cost: as those say.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/call_announcements.h"
#include "collectives/gpu/messages_by_kernel.h"
#include "collectives/gpu/messages_by_streams.h"
#include "collectives/gpu/process_context.h"
#include "collectives/gpu/process_message.h"

namespace rondo::gpu {

// Made with the first message of the pair. A peer that cannot give slots any more will not take
// or send anything either, and is named.
Result<MessageSlots::Slots> slots_for(ProcessContext& context, const ProcessMessage& message);

class ProcessMessages {
 public:
  explicit ProcessMessages(ProcessContext& context);

  // Whether they are kernels: then all messages of a call are of ranks of one device, the stream's.
  bool are_kernels() const { return context_.messages_are_kernels(); }

  Status run(std::span<const ProcessMessage> messages, GpuStream stream, bool capturing,
             Mismatch* mismatch);
  // The same in two steps: one caller at a time prepares; ranks may enqueue at once.
  struct Prepared {
    int rank = 0;  // of this process, after whose newest call the pieces come
    MessagesByKernel::Launches launches = {};
    MessagesByStreams::Pieces pieces = {};
  };
  Result<Prepared> prepare(std::span<const ProcessMessage> messages, Mismatch* mismatch);
  Status enqueue(const Prepared& prepared, GpuStream stream, bool capturing);

 private:
  Status announce_message(const ProcessMessage& message, Mismatch* mismatch);
  MessagesByKernel& by_kernel();

  ProcessContext& context_;
  std::vector<std::uint64_t> pair_messages_;   // by pair, ever
  std::optional<MessagesByKernel> by_kernel_;  // once there is one
  MessagesByStreams by_streams_{context_};
};

}  // namespace rondo::gpu
