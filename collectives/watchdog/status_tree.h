// StatusTree: how news of all ranks reach rank 0, which judges: up a tree whose edges join hosts,
// and how what ends all of them reaches everybody, over the same edges.
//
// A rank's parent is its host's first rank; that one's is the first rank of a host before it, and
// a host has eight such children. A parent keeps the newest of each rank below it and passes it on,
// many ranks in a message. It answers every message: so no more than 8 are under way, and a parent
// that is stopped is found out. Where a parent has ended, left, or answered nothing for 0.4 s, its
// children turn to its own parent with all that they know; rank 0 alone is never passed over while
// it lives. A rank whose child or parent has ended says so, but for those that left in order. A
// rank that turned to rank 0 and never had its answer may hear nothing of what ended rank 0: to
// that rank, the end of the parent before it began all of it.
//
// Of calls each rank passes on what it hears first and what differs: one of each number, as long as
// all is well. Guarantees: news of a rank are never older at rank 0 than those before; what a rank
// told just before its parent ended or left arrives, unless both go together. Nothing waits here.
//
// Cost: links to the parent and, at the first rank of a host, to the other ranks of the host and to
// eight hosts; messages of at most 4 KiB, one in 5 ms for all that is new; a message in 0.1 s while
// the rank waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/types.h"
#include "collectives/communicator/host_shape.h"
#include "collectives/watchdog/call_window.h"
#include "collectives/watchdog/progress.h"

namespace rondo::gpu {

// What is told of a rank.
struct StatusItem {
  enum Presence : std::uint32_t { kThere, kEnded, kLeft };  // later ones are better known
  int rank = -1;
  Presence presence = kThere;
  std::optional<Progress> progress{};  // none: the sender knows only its presence
  std::optional<Wait> wait{};          // with the progress; in a message: words do not travel
  std::uint64_t version = 0;           // of the progress: its rank's own count
  struct Call {
    std::uint64_t number = 0;
    CallRecord record;
  };
  std::vector<Call> calls{};  // that differ, or that nobody has told before
};

class StatusTree {
 public:
  static constexpr int kHostFanout = 8;
  static constexpr std::int64_t kReportNs = 5'000'000;
  static constexpr std::int64_t kSilentNs = 400'000'000;

  struct Options {
    int rank = 0, ranks = 1;
    std::vector<int> ancestors;  // ancestors_of()
    std::vector<int> children;   // children_of(): they hear what is told, also before they speak
    std::function<void(int peer, std::span<const std::byte>)> send;
    std::function<bool(int peer)> has_ended;  // the link to it
    // At rank 0, of every rank but itself. At others, once rank 0 has ended or left: of its end, or
    // of the end of a rank above that came before it, where rank 0 may have ended for that.
    std::function<void(const StatusItem&)> deliver;
  };
  explicit StatusTree(Options options)
      : options_(std::move(options)),
        children_(options_.children.begin(), options_.children.end()) {}

  // The parent first, rank 0 last.
  static std::vector<int> ancestors_of(const HostShape& shape, int rank);
  static std::vector<int> children_of(const HostShape& shape, int rank);

  // Of this rank; calls: those since the last time, the first of which has number `first` (from 1).
  void put(const Progress& progress, std::optional<Wait> wait, std::uint64_t first,
           std::span<const CallRecord> calls);
  // A message of its kinds (kStandingMessage, kStandingAnswer); what no rank sends is left alone.
  void report(int peer, std::span<const std::byte> message);
  // Sends what is new, answers, looks who has ended. waits: this rank does, in vain so far.
  void tick(std::int64_t now_ns, bool waits);
  // To the neighbours, and to those that turn to this rank later.
  void tell(std::vector<std::byte> message);
  // The last words, with all that has not been sent. After put().
  void leave();

  int parent() const { return is_orphan() ? -1 : options_.ancestors[at_]; }  // -1: none is left

 private:
  struct Below {  // this rank, or one below it
    StatusItem item;
    bool is_new = false;
  };
  struct UnderWay {
    std::uint64_t number;
    std::vector<std::byte> message;
  };

  bool is_orphan() const { return at_ >= options_.ancestors.size(); }
  bool is_above(int rank) const;
  void note(StatusItem item);
  void drop_known_calls(StatusItem* item);
  void report_items(int peer, std::span<const std::byte> items);
  void report_from_above(const StatusItem& item);
  void report_answer(std::uint64_t number);
  void look_for_ends();
  void look_for_silence();
  void turn_to_next_parent();
  void announce_end_of_rank_0(const StatusItem& item);
  void answer();
  void send_news(std::size_t max_under_way);
  void send_up(std::vector<std::byte> message);

  const Options options_;
  std::size_t at_ = 0;          // of the ancestors: the parent now
  std::map<int, Below> below_;  // by rank
  CallWindow calls_;
  std::set<int>
      children_;  // those of the terms and those that turned to this rank, while they are there
  std::set<int> gone_;    // ancestors, in order or without a word
  int ended_first_ = -1;  // of the ancestors, without a word, since one of them last answered
  std::map<int, std::uint64_t> unanswered_;  // by child: its newest message
  std::deque<UnderWay> under_way_;
  std::uint64_t sent_ = 0;
  std::int64_t now_ns_ = 0, ticked_at_ns_ = 0;  // the first counts only time in which this ran
  std::int64_t sent_at_ns_ = 0, waits_since_ns_ = 0;
  bool has_begun_ = false;
  std::vector<std::byte> reported_;  // tell()'s; empty: nothing
};

}  // namespace rondo::gpu
