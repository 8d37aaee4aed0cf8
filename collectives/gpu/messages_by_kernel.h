// MessagesByKernel: messages between processes with GPUs of their own: all that one device's ranks
// send and receive in a group is one kernel (kernels/cuda/messages.h), or a few where it is very
// much (message_launches.h).
//
// Guarantees: a call waits for no work of the device, also with the first message of a pair. Cost:
// one launch a group; for the first message of a pair its memory (message_slots.h).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "collectives/gpu/launch/message_launches.h"
#include "collectives/gpu/process_context.h"
#include "collectives/gpu/process_message.h"

namespace rondo::gpu {

class MessagesByKernel {
 public:
  explicit MessagesByKernel(ProcessContext& context) : context_(context) {}

  // Messages of ranks of one device. One caller at a time prepares; ranks may enqueue at once.
  using Launches = std::vector<MessageLaunch>;
  Result<Launches> prepare(std::span<const ProcessMessage> messages);
  Done enqueue(const Launches& launches, GpuStream stream) const;

 private:
  Result<MessageShape> shape_for(const ProcessMessage& message);

  ProcessContext& context_;
  std::map<std::pair<int, int>, MessageShape> shapes_;  // of pairs whose channels are known
};

}  // namespace rondo::gpu
