// SPDX-License-Identifier: Apache-2.0
// The tree that carries the status of ranks on many hosts to rank 0, while some ranks die, stop or
// leave.
#include "collectives/faults/status_tree.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>

#include "collectives/faults/fault.h"

namespace rondo::gpu {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::int64_t kTickOfTest = 1'000'000;

HostShape shape_of(int hosts, int ranks_of_each) {
  std::vector<std::uint64_t> host_of;
  for (int r = 0; r < hosts * ranks_of_each; ++r)
    host_of.push_back(static_cast<std::uint64_t>(r / ranks_of_each));
  return shape_of_hosts(host_of);
}

// Ranks with a queue of messages each, and a clock. A message to a dead rank is lost, and its
// sender sees the end of their link.
class StatusRanks {
 public:
  StatusRanks(int hosts, int ranks_of_each) : shape_(shape_of(hosts, ranks_of_each)) {
    const auto n = shape_.ranks.size();
    of_.resize(n);
    for (std::size_t r = 0; r < n; ++r) {
      const int rank = static_cast<int>(r);
      of_[r].tree = std::make_unique<StatusTree>(StatusTree::Options{
          rank, size(), StatusTree::ancestors_of(shape_, rank),
          StatusTree::children_of(shape_, rank),
          [this, rank](int peer, std::span<const std::byte> message) {
            of(rank).links.insert(peer);
            of(peer).links.insert(rank);
            if (!of(peer).dead) of(peer).inbox.push_back({rank, {message.begin(), message.end()}});
          },
          [this, rank](int peer) { return of(peer).dead && of(rank).links.contains(peer); },
          [this, rank](const StatusItem& item) { take(rank, item); }});
    }
  }
  struct Rank {
    std::unique_ptr<StatusTree> tree;
    std::deque<std::pair<int, Bytes>> inbox;
    std::set<int> links;
    bool dead = false, stopped = false, waits = false, reported = false;
    std::uint64_t traffic = 0, calls = 0;  // its own values
    std::uint64_t known_traffic = 0;       // as rank 0 knows it
    StatusItem::Presence presence = StatusItem::kThere;
    StatusItem::Presence rank_zero = StatusItem::kThere;  // state of rank 0 as this rank knows it,
    int ended_rank = -1;                                  // and the rank whose end it has learned
  };
  int size() const { return static_cast<int>(shape_.ranks.size()); }
  Rank& of(int rank) { return of_[static_cast<std::size_t>(rank)]; }
  const HostShape& shape() const { return shape_; }
  bool runs(int rank) { return !of(rank).dead && !of(rank).stopped; }

  // All ranks make the same calls, except those with `other`.
  void put(int rank, int calls = 0, bool other = false) {
    Rank& mine = of(rank);
    std::vector<CallRecord> made(static_cast<std::size_t>(calls));
    for (int i = 0; i < calls; ++i)
      made[static_cast<std::size_t>(i)].count = mine.calls + static_cast<std::uint64_t>(i) + 1;
    if (other) made.back().count += 100'000;
    Progress progress;
    progress.traffic = ++mine.traffic;
    mine.tree->put(progress, {}, mine.calls + 1, made);
    mine.calls += made.size();
  }
  void put_all() {
    for (int r = 0; r < size(); ++r)
      if (runs(r)) put(r);
  }
  void pass(int milliseconds) {
    for (int i = 0; i < milliseconds; ++i) {
      now_ += kTickOfTest;
      for (int r = 0; r < size(); ++r)
        if (runs(r)) turn(r);
    }
  }
  void report_fault(int rank) { take_fault(rank, {std::byte{kFaultMessage}, std::byte{1}}); }
  void leave(int rank) {
    of(rank).tree->leave();
    of(rank).dead = true;
  }
  void expect_all_known(const std::set<int>& but = {}) {
    for (int r = 1; r < size(); ++r)
      EXPECT_TRUE(but.contains(r) || of(r).known_traffic == of(r).traffic) << "rank " << r;
  }
  void expect_all_reported(const std::set<int>& but = {}) {
    for (int r = 0; r < size(); ++r) EXPECT_EQ(of(r).reported, !but.contains(r)) << "rank " << r;
  }
  std::map<std::uint64_t, std::map<std::uint64_t, std::set<int>>> calls;  // number, count, ranks

 private:
  void turn(int rank) {
    Rank& mine = of(rank);
    while (!mine.inbox.empty()) {
      const auto [from, message] = std::move(mine.inbox.front());
      mine.inbox.pop_front();
      if (message[0] == std::byte{kFaultMessage}) {
        take_fault(rank, message);
      } else {
        mine.tree->receive(from, message);
      }
    }
    mine.tree->tick(now_, mine.waits);
  }
  void take_fault(int rank, Bytes message) {
    if (std::exchange(of(rank).reported, true)) return;
    of(rank).tree->report_fault(std::move(message));
  }
  void take(int rank, const StatusItem& item) {
    if (rank != 0) {
      of(rank).rank_zero = std::max(of(rank).rank_zero, item.presence);
      of(rank).ended_rank = item.rank;
      return;
    }
    Rank& theirs = of(item.rank);
    if (item.progress) theirs.known_traffic = item.progress->traffic;
    theirs.presence = std::max(theirs.presence, item.presence);
    for (const StatusItem::Call& call : item.calls)
      calls[call.number][call.record.count].insert(item.rank);
  }

  HostShape shape_;
  std::vector<Rank> of_;
  std::int64_t now_ = 0;
};

constexpr int kHosts = 90,
              kOnHost = 3;  // hosts 9 to 16 are below host 1, hosts 81 to 88 below host 10
constexpr int kLeader1 = kOnHost, kLeader10 = 10 * kOnHost, kLeader81 = 81 * kOnHost;
constexpr int kLeaf = kHosts * kOnHost - 1;

TEST(StatusTree, EveryRankHasRankZeroAboveIt) {
  const HostShape shape = shape_of(kHosts, kOnHost);
  EXPECT_EQ(StatusTree::ancestors_of(shape, 0), std::vector<int>{});
  EXPECT_EQ(StatusTree::ancestors_of(shape, 2), std::vector<int>{0});
  EXPECT_EQ(StatusTree::ancestors_of(shape, kLeader81 + 1),
            (std::vector<int>{kLeader81, kLeader10, kLeader1, 0}));
}

TEST(StatusTree, BringsTheNewestOfAllByFewLinks) {
  StatusRanks ranks(kHosts, kOnHost);
  for (int round = 0; round < 3; ++round) {
    ranks.put_all();
    ranks.pass(60);
    ranks.expect_all_known();
  }
  for (int r = 0; r < ranks.size(); ++r)
    EXPECT_LE(ranks.of(r).links.size(), 1U + StatusTree::kHostFanout + kOnHost - 1) << r;
}

TEST(StatusTree, BringsEachCallAndWhatDiffers) {
  constexpr int kRounds = 40, kDiffers = kLeaf;
  StatusRanks ranks(kHosts, kOnHost);
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    for (int r = 1; r < ranks.size(); ++r)
      ranks.put(r, 1 + static_cast<int>(random() % 30), r == kDiffers && round == 20);
    ranks.pass(5);
  }
  ranks.pass(200);
  std::uint64_t maximum = 0, reported = 0, other = 0;
  for (int r = 1; r < ranks.size(); ++r) maximum = std::max(maximum, ranks.of(r).calls);
  for (const auto& [number, by_count] : ranks.calls)
    for (const auto& [count, who] : by_count) {
      reported += who.size();
      if (count == number) continue;
      ++other;
      EXPECT_EQ(who, std::set<int>{kDiffers});
    }
  EXPECT_EQ(ranks.calls.size(), maximum) << "every number";
  EXPECT_EQ(other, 1U);
  EXPECT_LE(reported, maximum * (StatusTree::kHostFanout + kOnHost) + 1) << "not by every rank";
}

TEST(StatusTree, NamesTheRankThatEndedAndTurnsToTheRest) {
  const std::vector<std::set<int>> kVictims = {
      {kLeaf}, {kLeader81}, {kLeader1}, {kLeader1, kLeader10}, {kLeader1, kLeader10, kLeader81}};
  for (const std::set<int>& victims : kVictims) {
    StatusRanks ranks(kHosts, kOnHost);
    ranks.put_all();
    ranks.pass(60);
    for (const int victim : victims) ranks.of(victim).dead = true;
    ranks.put_all();
    ranks.pass(100);
    ranks.put_all();
    ranks.pass(100);
    ranks.expect_all_known(victims);
    for (int r = 1; r < ranks.size(); ++r)
      EXPECT_EQ(ranks.of(r).presence, victims.contains(r) ? StatusItem::kEnded : StatusItem::kThere)
          << r;
  }
}

// The leader ends at any moment: ranks send again what it had acknowledged but not forwarded.
TEST(StatusTree, LosesNothingWithARankThatEnds) {
  for (int milliseconds = 0; milliseconds < 12; ++milliseconds) {
    StatusRanks ranks(kHosts, kOnHost);
    ranks.put_all();
    ranks.pass(60);
    ranks.put_all();
    ranks.pass(milliseconds);
    ranks.of(kLeader10).dead = true;
    ranks.pass(60);
    ranks.expect_all_known({kLeader10});
  }
}

TEST(StatusTree, ReportsToAllRanksThatRankZeroEnded) {
  for (const bool left : {false, true}) {
    StatusRanks ranks(kHosts, kOnHost);
    ranks.put_all();
    ranks.pass(60);
    left ? ranks.leave(0) : void(ranks.of(0).dead = true);
    ranks.put_all();
    ranks.pass(60);
    for (int r = 1; r < ranks.size(); ++r) {
      EXPECT_EQ(ranks.of(r).rank_zero, left ? StatusItem::kLeft : StatusItem::kEnded) << r;
      EXPECT_EQ(ranks.of(r).ended_rank, 0) << r;
    }
  }
}

// Ranks got no processor while a rank above them died and rank 0 reported it and then exited.
TEST(StatusTree, BlamesWhoEndedBeforeRankZeroWhereItsVerdictCannotHaveCome) {
  StatusRanks ranks(kHosts, kOnHost);
  std::set<int> late{kLeader1 + 1};
  for (int r = kLeader10; r < kLeader10 + kOnHost; ++r) late.insert(r);
  for (int r = kLeader81; r < kLeader81 + 8 * kOnHost; ++r) late.insert(r);
  ranks.put_all();
  ranks.pass(60);
  for (const int one : late) ranks.of(one).stopped = true;
  ranks.of(kLeader1).dead = true;
  ranks.pass(400);
  ranks.report_fault(0);
  ranks.pass(20);
  ranks.leave(0);
  for (const int one : late) ranks.of(one).stopped = false;
  ranks.pass(100);
  for (const int one : late) {
    EXPECT_TRUE(ranks.of(one).reported || ranks.of(one).ended_rank == kLeader1)
        << "rank " << one << " blames " << ranks.of(one).ended_rank;
    EXPECT_EQ(ranks.of(one).rank_zero, StatusItem::kEnded) << one;
  }
}

TEST(StatusTree, BlamesRankZeroThatKnewOfThoseWhoHadTurnedToIt) {
  StatusRanks ranks(kHosts, kOnHost);
  ranks.put_all();
  ranks.pass(60);
  ranks.of(kLeader1).dead = true;
  ranks.pass(200);
  ranks.of(0).dead = true;
  ranks.put_all();
  ranks.pass(60);
  for (int r = 1; r < ranks.size(); ++r)
    EXPECT_EQ(ranks.of(r).ended_rank, r == kLeader1 ? -1 : 0) << r;
}

TEST(StatusTree, PassesOverWhoStandsStill) {
  for (const std::set<int>& stopped :
       {std::set<int>{kLeader1}, std::set<int>{kLeader1, kLeader10}}) {
    StatusRanks ranks(kHosts, kOnHost);
    ranks.put_all();
    ranks.pass(60);
    for (const int one : stopped) ranks.of(one).stopped = true;
    ranks.put_all();
    ranks.pass(1000);
    ranks.put_all();
    ranks.pass(1000);
    ranks.expect_all_known(stopped);
    for (int r = 1; r < ranks.size(); ++r) EXPECT_EQ(ranks.of(r).presence, StatusItem::kThere) << r;
    // When they run again, they work as before.
    for (const int one : stopped) ranks.of(one).stopped = false;
    ranks.put_all();
    ranks.pass(100);
    ranks.expect_all_known();
  }
}

TEST(StatusTree, WhoLeavesInOrderHasNotEnded) {
  StatusRanks ranks(kHosts, kOnHost);
  ranks.put_all();
  ranks.pass(60);
  ranks.leave(kLeaf);
  ranks.pass(20);
  for (const int one : {kLeader10, kLeader1}) ranks.leave(one);
  ranks.put_all();
  ranks.pass(100);
  ranks.expect_all_known({kLeader10, kLeader1, kLeaf});
  for (int r = 1; r < ranks.size(); ++r)
    EXPECT_EQ(ranks.of(r).presence, ranks.of(r).dead ? StatusItem::kLeft : StatusItem::kThere) << r;
}

TEST(StatusTree, ReportsAFaultToEveryRank) {
  for (const int finder : {0, kLeader1, kLeader81, kLeaf}) {
    StatusRanks ranks(kHosts, kOnHost);
    ranks.put_all();
    ranks.pass(60);
    ranks.report_fault(finder);
    ranks.pass(20);
    ranks.expect_all_reported();
  }
}

TEST(StatusTree, ReportsToThoseBelowTheDeadAndThoseWhoWaitBelowTheStopped) {
  for (const bool stops : {false, true})
    for (const int finder : {0, kLeader81, kLeaf}) {
      StatusRanks ranks(kHosts, kOnHost);
      ranks.put_all();
      ranks.pass(60);
      (stops ? ranks.of(kLeader1).stopped : ranks.of(kLeader1).dead) = true;
      for (int r = 0; r < ranks.size(); ++r) ranks.of(r).waits = true;
      ranks.pass(100);
      ranks.report_fault(finder);
      ranks.pass(1500);
      ranks.expect_all_reported({kLeader1});
    }
}

// A fault is reported as soon as ranks exist, before any rank has received a report.
TEST(StatusTree, ReportsToThoseWhoHaveSentNothingYet) {
  for (const int finder : {0, kLeader1, kLeaf}) {
    StatusRanks ranks(kHosts, kOnHost);
    ranks.report_fault(finder);
    ranks.pass(20);
    ranks.expect_all_reported();
  }
}

// A rank on the path of the fault's report dies while the report is on its way.
TEST(StatusTree, ReportsToThoseWhoTurnToARankThatKnowsOfAFault) {
  for (const int finder : {0, kLeader81})
    for (int milliseconds = 0; milliseconds < 5; ++milliseconds) {
      StatusRanks ranks(kHosts, kOnHost);
      ranks.put_all();
      ranks.pass(60);
      ranks.report_fault(finder);
      ranks.pass(milliseconds);
      ranks.of(kLeader10).dead = true;
      ranks.pass(100);
      const bool received = ranks.of(kLeader10).reported;
      ranks.expect_all_reported(received ? std::set<int>{} : std::set<int>{kLeader10});
    }
}

TEST(StatusTree, LeavesAloneWhatNoRankSends) {
  StatusRanks ranks(2, 2);
  ranks.put_all();
  ranks.pass(20);
  std::mt19937 random(7);
  Bytes sent = status_message(kStandingMessage, 9);
  StatusItem item{3, StatusItem::kThere, Progress{}, Wait{kMessageInWords, {1}, 2}, 4, {}};
  item.calls.resize(5);
  append_status_item(item, kMaxStatusBytes, &sent);
  for (int i = 0; i < 2000; ++i) {
    Bytes damaged(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(random() % sent.size()));
    for (std::size_t k = 16; k < damaged.size(); k += 1 + random() % 64)
      damaged[k] = static_cast<std::byte>(random());
    ranks.of(0).tree->receive(2, damaged);
  }
  Bytes foreign = status_message(kStandingMessage, 1);
  item.rank = 4;
  append_status_item(item, kMaxStatusBytes, &foreign);
  std::span<const std::byte> items(foreign);
  items = items.subspan(sizeof(StatusHead));
  EXPECT_FALSE(next_status_item(&items, 4)) << "there is no rank 4";
  EXPECT_TRUE(next_status_item(&items, 5));
}

}  // namespace
}  // namespace rondo::gpu
