// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "collectives/faults/fault_texts.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// sender, receiver: calls of ranks that are here, or null.
std::optional<ProcessMessage> message_between(int from, int to, const CallRecord& record,
                                              const Call* sender, const Call* receiver) {
  const bool gathers = record.collective == Collective::kGather;
  const bool scatters = record.collective == Collective::kScatter;
  if ((gathers && to != record.root) || (scatters && from != record.root)) return std::nullopt;
  const std::uint64_t block = record.count * size_of(record.type);
  ProcessMessage message{from, to, record};
  message.in_collective = true;
  if (sender != nullptr)
    message.send = static_cast<const std::byte*>(sender->send) +
                   (gathers ? 0 : static_cast<std::uint64_t>(to) * block);
  if (receiver != nullptr)
    message.receive = static_cast<std::byte*>(receiver->receive) +
                      (scatters ? 0 : static_cast<std::uint64_t>(from) * block);
  if (message.send == message.receive) return std::nullopt;  // both in other processes, or in place
  return message;
}

}  // namespace

std::vector<ProcessMessage> messages_of_collective(const CallRecord& record, int ranks,
                                                   std::span<const int> here,
                                                   const std::function<const Call*(int)>& call_of) {
  std::vector<ProcessMessage> messages;
  const auto add = [&](int from, int to) {
    if (auto message = message_between(from, to, record, call_of(from), call_of(to)))
      messages.push_back(*message);
  };
  for (const int own : here)
    for (int peer = 0; peer < ranks; ++peer) {
      add(own, peer);
      if (call_of(peer) == nullptr) add(peer, own);
    }
  return messages;
}

std::vector<ProcessMessage> messages_of_counts(const CallRecord& record, int ranks,
                                               std::span<const int> here,
                                               const std::function<const Call*(int)>& call_of) {
  std::vector<ProcessMessage> messages;
  const auto add = [&](int from, int to) {
    const Call *const sender = call_of(from), *const receiver = call_of(to);
    ProcessMessage& message = messages.emplace_back(ProcessMessage{from, to, record});
    message.in_collective = true;
    if (sender != nullptr) {
      message.send = sender->send;
      message.sender = sender->counts.get();
    }
    if (receiver != nullptr) {
      message.receive = receiver->receive;
      message.receiver = receiver->counts.get();
    }
  };
  for (const int own : here)
    for (int peer = 0; peer < ranks; ++peer) {
      add(own, peer);
      if (call_of(peer) == nullptr) add(peer, own);
    }
  return messages;
}

Result<std::vector<ProcessMessage>> messages_of_group(int rank, std::span<const Call> calls,
                                                      Mismatch* mismatch) {
  std::vector<ProcessMessage> messages;
  std::vector<const Call*> to_itself[2];  // received, sent
  for (const Call& call : calls) {
    if (!is_point_to_point(call)) continue;
    const bool sends = call.record.collective == Collective::kSend;
    if (call.peer == rank)
      to_itself[sends].push_back(&call);
    else
      messages.push_back({sends ? rank : call.peer, sends ? call.peer : rank, call.record,
                          call.send, call.receive});
  }
  const auto& [received, sent] = to_itself;
  if (sent.size() != received.size())
    return fail(StatusCode::kInvalidUsage,
                "rank {} sends itself {} messages and receives {} from itself in one group", rank,
                sent.size(), received.size());
  for (std::size_t m = 0; m < sent.size(); ++m) {
    ProcessMessage message{rank, rank, sent[m]->record, sent[m]->send, received[m]->receive};
    const CallRecord& other = received[m]->record;
    if (message.bytes() != other.count * size_of(other.type)) {
      *mismatch = {rank, message.record, other,
                   fault_texts::different_sizes(rank, message.record, rank, other)};
      return fail(StatusCode::kInvalidUsage, "{}", mismatch->text);
    }
    messages.push_back(message);
  }
  return messages;
}

namespace {

std::uint64_t bytes_before(const MessageSlots::Slots& slots) {
  if (slots.on_host == nullptr) return 0;
  return cuda::kMessageCountersBytes + (slots.over_network ? cuda::kMessageUsedBytes : 0);
}

// Slots of all channels: behind the words that begin at `words`, or in device memory.
std::byte* slots_of(const MessageSlots::Slots& slots, std::byte* words) {
  return slots.direct.block ? slots.direct.at.get() : words + bytes_before(slots);
}

}  // namespace

Result<MessageShape> MessagesByKernel::shape_for(const ProcessMessage& message) {
  if (const auto known = shapes_.find({message.from, message.to}); known != shapes_.end())
    return known->second;
  const bool sends = options_.is_here(message.from);
  RONDO_TRY(const MessageSlots::Slots slots, options_.slots_for(message));
  const std::uint64_t before = bytes_before(slots);
  MessageShape shape = message_shape(slots.bytes - before, slots.over_network);
  DeviceConnections::MessageLink link;
  link.slots = slots_of(slots, slots.at);
  if (slots.on_host != nullptr) {
    link.counters = slots.at;
    link.counters_on_host = slots.on_host;
  }
  if (slots.over_network)
    link.used = reinterpret_cast<std::uint64_t*>(slots.at + cuda::kMessageCountersBytes);
  link.slot_bytes = shape.slot_bytes;
  const int own = sends ? message.from : message.to, peer = sends ? message.to : message.from;
  options_.connections->set_message_link(own, peer, sends ? cuda::kOutgoing : cuda::kIncoming,
                                         link);
  if (slots.over_network) carry(message, slots, shape);
  shapes_[{message.from, message.to}] = shape;
  return shape;
}

void MessagesByKernel::carry(const ProcessMessage& message, const MessageSlots::Slots& slots,
                             const MessageShape& shape) const {
  const auto word = [&](std::uint64_t offset) {
    return reinterpret_cast<std::uint64_t*>(slots.on_host + offset);
  };
  for (int channel = 0; channel < shape.channels; ++channel) {
    const auto c = static_cast<std::uint64_t>(channel);
    Connection end{};
    end.slot_bytes = shape.slot_bytes;
    end.slot_count = cuda::kMessageChannelSlots;
    end.buffer = slots_of(slots, slots.on_host) + c * end.slot_count * end.slot_bytes;
    end.tail = word(c * cuda::kMessageCounterBytes);
    end.head = word(cuda::kMessageTailsBytes + c * cuda::kMessageCounterBytes);
    end.used = word(cuda::kMessageCountersBytes) + c * end.slot_count;
    end.peer = options_.is_here(message.from) ? message.to : message.from;
    options_.carry(message.from, message.to, channel, end, slots.direct.block);
  }
}

namespace {

std::vector<PlannedMessages> with_record(std::vector<MessageLaunch> planned,
                                         const CallRecord& record) {
  std::vector<PlannedMessages> launches;
  for (MessageLaunch& one : planned) {
    one.args.call = record;
    launches.push_back({std::move(one), std::nullopt});
  }
  return launches;
}

// The planned lists, of messages of the largest size. A pair has the channels that such a message
// would have: both sides count the same.
void count_on_device(std::span<const ProcessMessage> messages,
                     const std::function<cuda::Control*(int rank)>& report_at,
                     std::vector<PlannedMessages>* launches) {
  // By rank and its end of the pair; of a copy by both ranks.
  std::map<std::pair<int, int>, std::uint8_t> channels, numbered;
  const auto pair_of = [](const PlannedMessages& launch, int item) {
    const int rank = launch.ranks[launch.args.stations[item]];
    if (launch.args.copies(static_cast<unsigned>(item)))
      return std::pair(rank, -1 - launch.ranks[launch.args.stations[item + 1]]);
    return std::pair(rank, launch.args.end[item] / cuda::kMessageChannels);
  };
  const auto each_item = [&](const auto& act) {
    for (PlannedMessages& launch : *launches)
      for (int item = 0; item < launch.args.first[launch.ctas];
           item += launch.args.copies(static_cast<unsigned>(item)) ? 2 : 1)
        act(launch, item);
  };
  each_item([&](const PlannedMessages& launch, int item) { ++channels[pair_of(launch, item)]; });
  for (PlannedMessages& launch : *launches) {
    const cuda::MessageArgs& planned = launch.args;
    cuda::CountedMessageArgs& args = launch.counted.emplace();
    args.call = planned.call;
    args.element_bytes = static_cast<std::uint32_t>(size_of(planned.call.type));
    std::copy(std::begin(planned.station), std::end(planned.station), args.station);
    std::copy(std::begin(planned.end), std::end(planned.end), args.end);
    std::copy(std::begin(planned.stations), std::end(planned.stations), args.stations);
    std::copy(std::begin(planned.first), std::end(planned.first), args.first);
    for (std::size_t s = 0; s < launch.ranks.size(); ++s) {
      args.rank[s] = launch.ranks[s];
      args.reports[s] = report_at(launch.ranks[s]);
      for (const ProcessMessage& message : messages) {
        if (message.from == args.rank[s] && message.sender != nullptr)
          args.counts[s] = *message.sender;
        if (message.to == args.rank[s] && message.receiver != nullptr)
          args.counts[s] = *message.receiver;
      }
    }
  }
  each_item([&](PlannedMessages& launch, int item) {
    cuda::CountedMessageArgs& args = *launch.counted;
    args.channels[item] = channels[pair_of(launch, item)];
    if (args.copies(static_cast<unsigned>(item)))
      args.channels[item + 1] = numbered[pair_of(launch, item)]++;
  });
}

}  // namespace

Result<MessagesByKernel::Launches> MessagesByKernel::prepare(
    std::span<const ProcessMessage> messages, int* peer) {
  std::vector<MessageMove> moves;
  for (const ProcessMessage& message : messages) {
    MessageMove& move = moves.emplace_back();
    move = {message.from, message.to, message.send, message.receive, message.bytes(), {}};
    if (!message.is_within() && move.bytes > 0) {
      auto shape = shape_for(message);
      if (!shape.ok() && peer != nullptr)
        *peer = options_.is_here(message.from) ? message.to : message.from;
      RONDO_TRY(move.shape, std::move(shape));
    }
  }
  const DeviceConnections& connections = *options_.connections;
  Launches launches =
      with_record(plan_message_launches(moves, connections.layout().ranks(), options_.max_ctas),
                  messages.front().record);
  for (PlannedMessages& launch : launches)
    for (std::size_t s = 0; s < launch.ranks.size(); ++s)
      launch.args.station[s] = connections.message_station(launch.ranks[s]);
  if (messages.front().sender != nullptr || messages.front().receiver != nullptr)
    count_on_device(
        messages, [&](int rank) { return connections.control(rank); }, &launches);
  return launches;
}

std::vector<PlannedMessages> counted_copies(
    std::span<const ProcessMessage> messages, int ranks, int max_ctas,
    const std::function<cuda::Control*(int rank)>& report_at) {
  std::vector<MessageMove> moves;
  for (const ProcessMessage& one : messages)
    moves.push_back({one.from, one.to, one.send, one.receive, one.bytes(), {}});
  std::vector<PlannedMessages> launches =
      with_record(plan_message_launches(moves, ranks, max_ctas), messages.front().record);
  count_on_device(messages, report_at, &launches);
  return launches;
}

Status enqueue_messages(std::span<const PlannedMessages> launches, GpuStream stream) {
  for (const PlannedMessages& launch : launches) {
    GpuLaunch made;
    made.kernel = launch.counted ? cuda::kCountedMessagesKernel : cuda::kMessagesKernel;
    made.grid = static_cast<unsigned>(launch.ctas);
    made.block = launch.threads;
    made.shared_bytes = cuda::kConnectedShared;
    made.arguments = &launch.args;
    made.argument_bytes = sizeof(launch.args);
    if (launch.counted) {
      made.arguments = &*launch.counted;
      made.argument_bytes = sizeof(*launch.counted);
    }
    made.remote_domain = true;
    RONDO_CHECK_OK(check(gpu_api()->launch(made, stream), "a kernel launch"));
  }
  return ok_status();
}

}  // namespace rondo::gpu
