// SPDX-License-Identifier: Apache-2.0
// librondo-watch.so names the rank that the others wait for, in jobs of a library that simulates
// NCCL; before that, it accuses nobody.
//
//   RONDO_TEST_WATCH_FAULTS=1000 watch_tests --gtest_filter='WatchOfFaults*'
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/seconds.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"
#include "tests/support/status_job.h"
#include "tests/watch/injected_fault.h"

namespace rondo::test {
namespace {

bool knows_all(const JobView& view, int ranks) {
  return view.communicators.size() == 2 &&
         std::all_of(view.communicators.begin(), view.communicators.end(), [&](const auto& one) {
           return one.ranks.size() == static_cast<std::size_t>(ranks);
         });
}

void expect_named(const InjectedFault& fault, Tallies* tallies = nullptr) {
  SCOPED_TRACE(fault.text());
  if (tallies != nullptr) ++(*tallies)[fault.what].injected;
  const StatusJob status;
  Job job(as_processes(fault.ranks).under(status.environment()));
  job.create = false;
  const Comms comms;
  RankProcesses ranks(job, [&](RankSeat& seat) {
    make_calls(seat, fault, comms, [&](int call) {
      if (call == fault.calls) seat.mark(1);
      return call >= fault.calls;
    });
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const int asked = (fault.culprit + 1) % fault.ranks;
  std::vector<Blame> blamed;
  std::string seen;
  bool is_whole = false;
  const auto ask = [&] {
    const auto view = ask_process(ranks.pid(asked), false);
    if (view.ok()) blamed = diagnose(*view);
    is_whole = view.ok() && knows_all(*view, fault.ranks);
    seen = view.ok() ? view->to_json().text(1) : view.error().text;
  };
  if (fault.is_sent()) {
    ASSERT_TRUE(wait_until([&] {
      return ask(), is_whole && (blamed.empty() || !is_only_slow(blamed));
    })) << seen;
    for (const Blame& blame : blamed) ADD_FAILURE() << "too early: " << blame.text;
  }
  inject(ranks, fault);
  const std::int64_t began = now_ns();
  std::string wrong;
  wait_until([&] {
    ask();
    if (blamed.empty()) nap(0.05);
    if (blamed.empty() || fault.names(blamed[0])) return !blamed.empty();
    wrong = blamed[0].text;
    return !is_only_slow(blamed);
  });
  if (tallies != nullptr && !wrong.empty())
    (*tallies)[fault.what].wrong.push_back(fault.text() + ": " + wrong);
  ASSERT_FALSE(blamed.empty()) << seen;
  const bool named = fault.names(blamed[0]);
  EXPECT_TRUE(named) << blamed[0].text << " (" << name_of(blamed[0].kind) << ")\n" << seen;
  if (tallies != nullptr && named)
    (*tallies)[fault.what].named_after.push_back(static_cast<double>(now_ns() - began) * 1e-9);
}

TEST(WatchOfFaults, NamesARankThatDoesNotEnterACall) {
  expect_named({.culprit = 2});
  expect_named({.culprit = 1, .ahead = 30});
}
TEST(WatchOfFaults, NamesAStoppedRank) { expect_named({.what = kIsStopped, .culprit = 1}); }
TEST(WatchOfFaults, NamesADeadRank) { expect_named({.what = kIsKilled, .culprit = 3}); }
TEST(WatchOfFaults, NamesARankThatIsHeldOrHasLeft) {
  expect_named({.what = kIsHeld, .culprit = 2});
  expect_named({.what = kLeaves, .culprit = 0});
}
TEST(WatchOfFaults, NamesTheRankThatMadeAnotherCall) {
  expect_named({.what = kDiffers, .culprit = 1});
  expect_named({.what = kDiffers, .culprit = 1, .ahead = 4});
}
TEST(WatchOfFaults, NamesTheRankWhoseKernelHasNotBegun) {
  expect_named({.what = kBlocksStream, .culprit = 3});
}
TEST(WatchOfFaults, NamesTheOrderInWhichCommunicatorsWereEntered) {
  expect_named({.what = kOrders, .culprit = 1});
}
TEST(WatchOfFaults, NamesTheSenderOfAMessage) {
  expect_named({.what = kKeepsMessage, .culprit = 2});
}
TEST(WatchOfFaults, NamesTheOneThatIsMissingInAGroupOfMessages) {
  expect_named({.what = kSkipsAll, .culprit = 2});
  expect_named({.what = kSkipsAll, .culprit = 0, .ahead = 4});
  expect_named({.what = kSkipsNext, .culprit = 3});  // ranks 0 and 1 have ended their part
}

// Of a Broadcast NCCL 2.30 tells the call alone: named after 10 s, if others have not come to it.
TEST(WatchOfFaults, NamesTheOneThatIsMissingInACallWithoutEvents) {
  const StatusJob status;
  Job job(as_processes(3).under(status.environment()));
  job.create = false;
  const Comms comms;
  RankProcesses ranks(job, [&](RankSeat& seat) {
    SimulatedRank rank(options_of(seat, {.ranks = 3}), comms.first);
    for (int call = 0; call < 5; ++call) {
      rank.collective("Broadcast", 100, 0, false);
      rank.collective("AllReduce", 100);
    }
    rank.wait_for_gpu();
    seat.mark(1);
    if (seat.rank != 1) rank.collective("Broadcast", 100, 0, false);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  std::vector<Blame> blamed;
  ASSERT_TRUE(wait_until([&] {
    const auto view = ask_process(ranks.pid(2), false);
    if (view.ok()) blamed = diagnose(*view);
    return !blamed.empty() && blamed[0].waiters == 2;
  }));
  EXPECT_EQ(blamed[0].rank, 1) << blamed[0].text;
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered) << blamed[0].text;
  EXPECT_NE(blamed[0].text.find("has not entered call 11, Broadcast"), std::string::npos)
      << blamed[0].text;
  ranks.board().flag = 1;
}

// A network that is down holds all ranks up alike: nobody is named, the text says where it is.
TEST(WatchOfFaults, ReportsThatAllRanksWaitAlike) {
  const StatusJob status;
  Job job(as_processes(3).under(status.environment()));
  job.create = false;
  const InjectedFault fault{.ranks = 3, .network = true};
  const Comms comms;
  comms.first->down_from = 20;
  RankProcesses ranks(job, [&](RankSeat& seat) {
    SimulatedRank rank(options_of(seat, fault), comms.first);
    for (;;) {
      rank.collective("AllReduce", 100);
      rank.wait_for_gpu();
    }
  });
  std::vector<Blame> blamed;
  ASSERT_TRUE(wait_until([&] {
    const auto view = ask_process(ranks.pid(1), false);
    if (view.ok()) blamed = diagnose(*view);
    return !blamed.empty();
  }));
  EXPECT_EQ(blamed[0].kind, Blame::kAlike) << blamed[0].text;
  EXPECT_EQ(blamed[0].rank, -1);
  EXPECT_EQ(blamed[0].waiters, 3);
  EXPECT_NE(blamed[0].text.find("all 3 ranks wait alike in call 20, AllReduce"), std::string::npos)
      << blamed[0].text;
  EXPECT_NE(blamed[0].text.find("step 0 of data from rank"), std::string::npos) << blamed[0].text;
}

// Beside processes that keep all cores busy. A rank that a busy machine delays for a second is
// late: what is checked is that nobody is named whom the others do not wait for.
TEST(WatchOfFaults, AccusesNobodyOfAHealthyJob) {
  constexpr int kCalls = 2500;  // on each of four ranks
  const StatusJob status;
  Job job(as_processes(4).under(status.environment()));
  job.create = false;
  const InjectedFault fault{.network = true};
  const Comms comms;
  RankProcesses ranks(job, [&](RankSeat& seat) {
    SimulatedRank rank(options_of(seat, fault), comms.first);
    seat.mark(1);
    for (int call = 0; call < kCalls; ++call) {
      rank.collective(call % 3 == 0 ? "Broadcast" : "AllReduce", 100, call % 4);
      rank.wait_for_gpu(8);
    }
    seat.mark(2);
    seat.wait_flag(1);
  });
  Job busy(as_processes(2));
  busy.create = false;
  const RankProcesses loops(busy, [](RankSeat&) {
    for (std::atomic<int> turns{0};;) ++turns;
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  int asked = 0;
  std::vector<Blame> blamed;
  ASSERT_TRUE(wait_until([&] {
    const auto view = ask_process(ranks.pid(asked++ % 4), false);
    if (view.ok()) blamed = diagnose(*view);
    return !blamed.empty() || ranks.board().seats[3].stage == 2;
  }));
  EXPECT_TRUE(blamed.empty()) << blamed[0].text;
  EXPECT_GT(asked, 10);
  ASSERT_TRUE(ranks.wait_stage(2));
  ranks.board().flag = 1;
}

TEST(WatchOfFaults, NamesTheCulpritOfRandomFaults) {
  const char* asked = std::getenv("RONDO_TEST_WATCH_FAULTS");
  const int faults = asked == nullptr ? 4 : std::atoi(asked);
  const TestSeed seed;
  std::mt19937 random(seed.value);
  Tallies tallies;
  for (int made = 0; made < faults && !HasFailure(); ++made)
    expect_named(random_fault(random), &tallies);
  fmt::print("seed {}: {} faults\n", seed.value, faults);
  print_and_expect(tallies);
}

}  // namespace
}  // namespace rondo::test
