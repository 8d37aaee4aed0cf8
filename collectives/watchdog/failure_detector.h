// FailureDetector: of the ranks of a communicator on several hosts, from what each has told of
// itself: who made another call, who ended or left too early, whom a kernel waited for in vain.
//
// Knows no network and no clock: internode_status.h brings it the news and the time. Lives with
// rank 0. Guarantees: one verdict, the first; it names a rank at fault wherever one is known. Cost:
// memory for the newest 1024 calls of each rank; hear() and verdict() look at every rank once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "collectives/watchdog/fault.h"

namespace rondo::gpu {

// How far a rank is. As it travels.
struct Standing {
  std::uint64_t traffic = 0;       // of its net proxy: whether something moves at all
  std::uint64_t begun = 0;         // launches over connections; replays of graphs included
  CallRecord launch;               // the newest of them
  std::uint32_t inside = 0;        // 1: it is not over
  std::uint32_t gave_up = 0;       // 1: a wait in it has lasted longer than RONDO_TIMEOUT, for
  std::int32_t peer = -1;          // this rank
  std::int32_t channel = 0;        //
  std::uint64_t step = 0;          //
  std::uint32_t wants_room = 0;    // 1: to take data; else to send some
  std::uint32_t limit_millis = 0;  // that limit
  friend bool operator==(const Standing&, const Standing&) = default;
};

class FailureDetector {
 public:
  static constexpr std::uint64_t kWindow = 1024;  // calls that ranks may be apart and be compared

  FailureDetector(int ranks, std::function<std::string(int)> name_of);

  // Calls that the rank has made, the first of which has number `first` (from 1).
  void hear_calls(int rank, std::uint64_t first, std::span<const CallRecord> calls);
  void hear(int rank, const Standing& standing, std::int64_t now_ns);
  void hear_leave(int rank, std::int64_t now_ns);  // in order
  void hear_end(int rank, std::int64_t now_ns);    // without a word
  // Once: why nothing can go on.
  std::optional<Fault> verdict(std::int64_t now_ns);
  // For how long somebody has waited for others and nothing moved, and a sentence on it.
  std::int64_t stalled_ns(std::int64_t now_ns) const;
  std::string who_waits() const;

 private:
  enum class Presence { kThere, kLeft, kEnded };
  struct Of {
    Standing standing;
    Presence presence = Presence::kThere;
    std::uint64_t called = 0;
    std::vector<CallRecord> calls;  // of number n: [n % kWindow]
  };
  void compare(int rank, std::uint64_t number);
  int farthest() const;  // a rank inside the newest launch; -1: none is inside any
  std::vector<int> behind(int rank) const;
  std::optional<Fault> find(std::int64_t now_ns) const;
  Fault gave_up(int rank) const;
  std::optional<Fault> replayed_another(int rank) const;
  std::optional<Fault> gone(std::int64_t now_ns) const;

  std::vector<Of> of_;
  const std::function<std::string(int)> name_of_;
  std::int64_t moved_at_ = 0;
  std::optional<Fault> mismatch_;
  bool told_ = false;
};

}  // namespace rondo::gpu
