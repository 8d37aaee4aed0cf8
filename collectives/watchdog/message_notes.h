// MessageNotes: the messages between ranks on GPUs of several hosts as both sides announced them,
// so that a send and a receive whose sizes differ become an error.
//
// Senders tell receivers, in control messages; receivers compare, by number among those of the
// pair. A side that has captured one into a graph announces none of the pair any more: nobody
// counts replays. Guarantees: of the newest kDepth of a pair those that both sides have announced
// are compared; safe from any thread. Cost: a copy under a lock a message; a control message a peer
// for all that is new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "collectives/watchdog/fault.h"

namespace rondo::gpu {

class MessageNotes {
 public:
  static constexpr std::uint64_t kDepth = 32;

  explicit MessageNotes(int rank) : rank_(rank) {}

  // One of them is this rank.
  void announce(int from, int to, const CallRecord& record, bool captured);

  // A message that is to be sent to a peer, if there is one; at most `max_bytes` bytes.
  struct ToTell {
    int peer;
    std::vector<std::byte> message;
  };
  std::optional<ToTell> take(std::size_t max_bytes);
  void report(int peer, std::span<const std::byte> message);
  // Once: the first two that differ.
  std::optional<Fault> take_mismatch();

 private:
  struct Note {
    std::uint64_t number = 0;
    CallRecord record;
  };
  struct OfSender {  // to this rank
    bool stopped = false;
    std::uint64_t received = 0;
    Note own[kDepth], theirs[kDepth];
  };
  struct Untold {
    bool stopped = false;
    std::uint64_t told = 0;
    std::vector<CallRecord> records;
  };
  void compare(int sender, std::uint64_t number);

  const int rank_;
  std::mutex mutex_;
  std::map<int, OfSender> of_sender_;
  std::map<int, Untold> untold_;  // by receiver
  std::optional<Fault> mismatch_;
};

}  // namespace rondo::gpu
