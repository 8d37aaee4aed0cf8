// SPDX-License-Identifier: Apache-2.0
// MessageNotes: compares the messages between ranks on GPUs of several hosts as both sides
// announced them, so that a send and a receive of different sizes become an error, and a message
// with a count in device memory on one side alone.
//
// Senders announce to receivers in control messages. Receivers compare by number within the pair. A
// side that captured a message into a graph announces no more of that pair: replays are not
// counted. Guarantees: of the newest kDepth messages of a pair, all that both sides announced are
// compared; safe from any thread. Cost: one copy under a lock per message; one control message per
// peer for all that is new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "collectives/faults/fault.h"

namespace rondo::gpu {

class MessageNotes {
 public:
  static constexpr std::uint64_t kDepth = 32;

  explicit MessageNotes(int rank) : rank_(rank) {}

  // Either `from` or `to` is this rank.
  void announce(int from, int to, const CallRecord& record, bool captured);

  // The next message to send to a peer, if any; at most `max_bytes` bytes.
  struct ToSend {
    int peer;
    std::vector<std::byte> message;
  };
  std::optional<ToSend> take(std::size_t max_bytes);
  void receive(int peer, std::span<const std::byte> message);
  // Returned once: the first send and receive that differ.
  std::optional<Fault> take_mismatch();

 private:
  struct Note {
    std::uint64_t number = 0;
    CallRecord record;
  };
  struct OfSender {  // messages to this rank
    bool stopped = false;
    std::uint64_t received = 0;
    Note own[kDepth], theirs[kDepth];
  };
  struct Unsent {
    bool stopped = false;
    std::uint64_t sent = 0;
    std::vector<CallRecord> records;
  };
  void compare(int sender, std::uint64_t number);

  const int rank_;
  std::mutex mutex_;
  std::map<int, OfSender> of_sender_;
  std::map<int, Unsent> unsent_;  // by receiver
  std::optional<Fault> mismatch_;
};

}  // namespace rondo::gpu
