// SPDX-License-Identifier: Apache-2.0
// StatusTree: brings news of all ranks to rank 0, which judges, up a tree whose edges join hosts.
// News that ends all ranks reaches every rank over the same edges.
//
// The parent of a rank is the first rank of its host. The parent of that one is the first rank of
// an earlier host; each host has at most eight child hosts. A parent keeps the newest state of each
// rank below it and forwards it, many ranks per message. It answers every message; so at most 8
// messages are unanswered, and a stopped parent is detected. If a parent has ended, left, or not
// answered for 0.4 s, its children turn to its parent with all that they know; rank 0 alone is
// never bypassed while it is alive. A rank reports a child or parent that ended, except those that
// left in order. A rank that turned to rank 0 and never got an answer may miss the fault that ended
// rank 0; it reports the end of the parent before rank 0 as the cause.
//
// Each rank forwards the first report of each call and reports that differ: one per call number if
// all ranks agree. Guarantees: rank 0 never gets older news of a rank after newer; the last report
// of a rank before its parent ended or left arrives, unless both go at once. Nothing here waits.
//
// Cost: links to the parent and, at the first rank of a host, to the other ranks of the host and to
// eight hosts; messages of at most 4 KiB, one per 5 ms for all news; one message per 0.1 s while
// the rank waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/types.h"
#include "collectives/context/host_shape.h"
#include "collectives/faults/call_window.h"
#include "collectives/faults/progress.h"
#include "transport/net/remote_links.h"

namespace rondo::gpu {

// News of a rank.
struct StatusItem {
  enum Presence : std::uint32_t { kThere, kEnded, kLeft };  // ordered by certainty
  int rank = -1;
  Presence presence = kThere;
  std::optional<Progress> progress{};  // none: the sender knows only the presence
  std::optional<Wait> wait{};          // sent with the progress; the text of the call is not sent
  std::uint64_t version = 0;           // version of the progress, counted by its rank
  struct Call {
    std::uint64_t number = 0;
    CallRecord record;
  };
  std::vector<Call> calls{};  // calls that differ or were not reported before
};

class StatusTree {
 public:
  static constexpr int kHostFanout = 8;
  static constexpr std::int64_t kReportNs = 5'000'000;
  static constexpr std::int64_t kSilentNs = 400'000'000;

  struct Options {
    int rank = 0, ranks = 1;
    std::vector<int> ancestors;  // ancestors_of()
    std::vector<int> children;   // children_of(): they learn of a fault even before they send
    std::function<void(int peer, std::span<const std::byte>)> send;
    std::function<bool(int peer)> has_ended;  // whether the link to the peer has ended
    // At rank 0: news of every other rank. At other ranks, after rank 0 ended or left: news of rank
    // 0's end, or of the end of a rank above that came first and may have ended rank 0.
    std::function<void(const StatusItem&)> deliver;
  };
  explicit StatusTree(Options options)
      : options_(std::move(options)),
        children_(options_.children.begin(), options_.children.end()) {}

  // In order: the parent first, rank 0 last.
  static std::vector<int> ancestors_of(const HostShape& shape, int rank);
  static std::vector<int> children_of(const HostShape& shape, int rank);

  // State of this rank. calls: since the last put(); the first has number `first` (from 1).
  void put(const Progress& progress, std::optional<Wait> wait, std::uint64_t first,
           std::span<const CallRecord> calls);
  // Takes a kStandingMessage or kStandingAnswer; ignores anything that no rank sends.
  void receive(int peer, std::span<const std::byte> message);
  // Sends news, answers, checks which ranks ended. waits: this rank waits without progress.
  void tick(std::int64_t now_ns, bool waits);
  // Sends to the neighbors, and to ranks that turn to this rank later.
  void report_fault(std::vector<std::byte> message);
  // Sends that this rank left, and all unsent news. Call after put().
  void leave();

  int parent() const { return is_orphan() ? -1 : options_.ancestors[at_]; }  // -1: none is left

 private:
  struct Below {  // this rank, or a rank below it
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
  void receive_items(int peer, std::span<const std::byte> items);
  void receive_from_above(const StatusItem& item);
  void receive_answer(std::uint64_t number);
  void look_for_ends();
  void look_for_silence();
  void turn_to_next_parent();
  void announce_end_of_rank_0(const StatusItem& item);
  void answer();
  void send_news(std::size_t max_under_way);
  void send_up(std::vector<std::byte> message);

  const Options options_;
  std::size_t at_ = 0;          // index in `ancestors` of the current parent
  std::map<int, Below> below_;  // by rank
  CallWindow calls_;
  std::set<int> children_;  // the initial children and those that turned to this rank, while alive
  std::set<int> gone_;      // ancestors that left or ended
  int ended_first_ = -1;    // the ancestor that ended first since one last answered
  std::map<int, std::uint64_t> unanswered_;  // by child: number of its newest message
  std::deque<UnderWay> under_way_;
  std::uint64_t sent_ = 0;
  std::int64_t now_ns_ = 0, ticked_at_ns_ = 0;  // now_ns_ counts only time in which this ran
  std::int64_t sent_at_ns_ = 0, waits_since_ns_ = 0;
  bool has_begun_ = false;
  std::vector<std::byte> reported_;  // report_fault()'s message; empty: none
};

// Messages of a StatusTree as bytes. Readers validate their input: an item that no rank can have
// sent ends the message. Cost: 168 bytes per rank and 24 per call.
struct StatusHead {
  std::uint64_t kind = 0;    // kStandingMessage or kStandingAnswer, in the first byte
  std::uint64_t number = 0;  // number of the sender's message; 0: no answer wanted
};

inline constexpr std::size_t kMaxStatusBytes = RemoteLinks::kMaxControlBytes;
inline constexpr std::size_t kNoRoomForItem = ~std::size_t{0};

std::vector<std::byte> status_message(std::uint8_t kind, std::uint64_t number);
void number_status_message(std::uint64_t number, std::vector<std::byte>* message);

// Appends the item with as many of its calls as fit, and returns their number; kNoRoomForItem: the
// item itself does not fit. max_bytes: limit of the message; 0: append the item without calls,
// without limit.
std::size_t append_status_item(const StatusItem& item, std::size_t max_bytes,
                               std::vector<std::byte>* message);

std::optional<StatusHead> status_head_of(std::span<const std::byte> message);
// Removes the first item of `items`; nothing at the end or if it cannot be read. Its ranks are in
// 0..ranks-1.
std::optional<StatusItem> next_status_item(std::span<const std::byte>* items, int ranks);

}  // namespace rondo::gpu
