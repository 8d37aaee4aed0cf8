// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/point_to_point.h"

#include <algorithm>
#include <cassert>

namespace rondo::host {
namespace {

enum class Advance { kNothing, kSome, kMismatch };

Advance advance_send(StoreChoice& stores, Message& message) {
  SendEnd<> end(*message.connection);
  Advance result = Advance::kNothing;
  while (!message.finished && end.ready()) {
    const std::size_t bytes =
        std::min(message.bytes - message.done_bytes, std::size_t{message.connection->slot_bytes});
    fill(stores, *message.connection, message.buffer + message.done_bytes, bytes);
    end.push(bytes, message.record, message.tag);
    message.done_bytes += bytes;
    message.finished = message.done_bytes == message.bytes;
    result = Advance::kSome;
  }
  return result;
}

// True for a message of any type with the expected number of bytes, or for a part of the same
// collective.
bool fits(const CallRecord& theirs, std::uint32_t tag, const Message& message) {
  const bool part = message.record.collective < Collective::kSend;
  if (part || theirs.collective < Collective::kSend)
    return theirs == message.record && tag == message.tag;
  return theirs.count * size_of(theirs.type) == message.bytes;
}

Advance advance_receive(Message& message) {
  ReceiveEnd<> end(*message.connection);
  Advance result = Advance::kNothing;
  while (!message.finished && end.ready()) {
    const CallRecord theirs = end.record();
    const std::size_t expected =
        std::min(message.bytes - message.done_bytes, std::size_t{message.connection->slot_bytes});
    if (!fits(theirs, end.tag(), message) || end.bytes() != expected) return Advance::kMismatch;
    copy_bytes(message.buffer + message.done_bytes, end.slot(), expected, false);
    end.pop();
    message.done_bytes += expected;
    message.finished = message.done_bytes == message.bytes;
    result = Advance::kSome;
  }
  return result;
}

}  // namespace

bool run_messages(HostRank& rank, std::span<Message> messages) {
  for ([[maybe_unused]] const Message& message : messages) {
    assert(message.connection != nullptr && !message.finished && message.done_bytes == 0);
    assert(message.bytes == 0 || message.buffer != nullptr);
  }
  std::size_t left = messages.size();
  const Message* mismatched = nullptr;
  const Message* blocked = nullptr;
  // One pass over all messages: the first unfinished message of each connection may move.
  const auto turn = [&] {
    bool moved = false;
    blocked = nullptr;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Message& message = messages[i];
      if (message.finished) continue;
      const bool behind = std::any_of(
          messages.begin(), messages.begin() + i,
          [&](const Message& m) { return !m.finished && m.connection == message.connection; });
      if (behind) continue;
      const Advance how = message.is_send
                              ? advance_send(rank.stores_for(message.connection->peer), message)
                              : advance_receive(message);
      if (how == Advance::kMismatch) mismatched = &message;
      if (how == Advance::kSome) moved = true;
      if (message.finished) {
        --left;
      } else if (blocked == nullptr) {
        blocked = &message;
      }
    }
    return moved || mismatched != nullptr || left == 0;
  };
  const auto needs = [](const void* self, int peer) {
    const auto& all = *static_cast<const std::span<Message>*>(self);
    return std::any_of(all.begin(), all.end(),
                       [&](const Message& m) { return !m.finished && m.connection->peer == peer; });
  };
  while (left > 0) {
    turn();
    if (mismatched != nullptr) {
      const ReceiveEnd<> end(*mismatched->connection);
      rank.hooks.on_mismatch(rank.hooks.owner, mismatched->connection->peer, mismatched->record,
                             end.record(), end.tag() != 0 ? rank.number_of(end.tag()) : 0);
      return false;
    }
    if (left == 0) break;
    assert(blocked != nullptr);
    const WaitSite site{-1, blocked->done_bytes, blocked->connection->peer, needs, &messages};
    if (!rank.waiter.until(turn, site)) return false;
  }
  return true;
}

}  // namespace rondo::host
