// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/process_message.h"

#include <optional>

#include "collectives/faults/fault_texts.h"

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

}  // namespace rondo::gpu
