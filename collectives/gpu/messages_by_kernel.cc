#include "collectives/gpu/messages_by_kernel.h"

#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

// Where slots are the host's, so are the counters, before them.
Result<MessageShape> MessagesByKernel::shape_for(const ProcessMessage& message) {
  if (const auto known = shapes_.find({message.from, message.to}); known != shapes_.end())
    return known->second;
  RONDO_TRY(const MessageSlots::Slots slots, slots_for(context_, message));
  constexpr std::uint64_t kCounters =
      2 * cuda::kMessageChannels * cuda::kMessageCounterBytes;  // tails and heads
  const bool on_host = slots.on_host != nullptr;
  const MessageShape shape = message_shape(slots.bytes - (on_host ? kCounters : 0));
  DeviceConnections::MessageLink link;
  link.slots = slots.at + (on_host ? kCounters : 0);
  link.counters = on_host ? slots.at : nullptr;
  link.counters_on_host = slots.on_host;
  link.slot_bytes = shape.slot_bytes;
  if (context_.is_local(message.from))
    context_.shared.connections->set_message_link(message.from, message.to, cuda::kOutgoing, link);
  else
    context_.shared.connections->set_message_link(message.to, message.from, cuda::kIncoming, link);
  shapes_[{message.from, message.to}] = shape;
  return shape;
}

Result<MessagesByKernel::Launches> MessagesByKernel::prepare(
    std::span<const ProcessMessage> messages) {
  std::vector<MessageMove> moves;
  for (const ProcessMessage& message : messages) {
    MessageMove& move = moves.emplace_back();
    move = {message.from, message.to, message.send, message.receive, message.bytes(), {}};
    if (!message.is_within() && move.bytes > 0) {
      RONDO_TRY(move.shape, shape_for(message));
    }
  }
  const DeviceConnections& connections = *context_.shared.connections;
  Launches launches =
      plan_message_launches(moves, context_.ranks(), connections.layout().shape().channels);
  for (MessageLaunch& launch : launches) {
    launch.args.call = messages.front().record;
    for (std::size_t s = 0; s < launch.ranks.size(); ++s)
      launch.args.station[s] = connections.message_station(launch.ranks[s]);
  }
  return launches;
}

Done MessagesByKernel::enqueue(const Launches& launches, GpuStream stream) const {
  for (const MessageLaunch& launch : launches) {
    GpuLaunch made;
    made.kernel = cuda::kMessagesKernel;
    made.grid = static_cast<unsigned>(launch.ctas);
    made.block = launch.threads;
    made.shared_bytes = cuda::kConnectedShared;
    made.arguments = &launch.args;
    made.argument_bytes = sizeof(launch.args);
    made.remote_domain = true;
    RONDO_CHECK_OK(check(context_.api.launch(made, stream), "a kernel launch"));
  }
  return done();
}

}  // namespace rondo::gpu
