// SPDX-License-Identifier: Apache-2.0
// librondo-watch.so names the rank that the others wait for, in jobs of a library that simulates
// NCCL; before that, it accuses nobody.
//
//   RONDO_TEST_WATCH_FAULTS=1000 watch_tests --gtest_filter='WatchOfFaults*'
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "base/seconds.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"
#include "tests/support/status_job.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {
namespace {

enum Injected {
  kStaysOutside,  // makes no further call
  kIsStopped,     // SIGSTOP
  kIsKilled,      // SIGKILL
  kIsHeld,        // its thread hangs where it is
  kLeaves,        // destroys its communicator
  kDiffers,       // makes another call
  kBlocksStream,  // its kernel does not begin
  kOrders,        // enters two communicators in another order
  kKeepsMessage,  // does not send what the next one receives
  kInjections
};
const char* name_of(Injected what) {
  constexpr const char* kNames[] = {"stays outside",
                                    "is stopped",
                                    "is killed",
                                    "is held",
                                    "leaves",
                                    "makes another call",
                                    "blocks its stream",
                                    "orders communicators differently",
                                    "keeps its message"};
  return kNames[what];
}

struct InjectedFault {
  Injected what = kStaysOutside;
  int ranks = 4, culprit = 0;
  int calls = 3;  // before the fault
  int ahead = 0;  // how far hosts run ahead of their GPUs
  std::size_t count = 100;
  int version = 6;
  bool network = false;

  bool is_sent() const { return what == kIsStopped || what == kIsKilled || what == kIsHeld; }
  std::string text() const {
    return fmt::format("rank {} of {} {} after {} calls, {} ahead, version {}{}", culprit, ranks,
                       name_of(what), calls, ahead, version, network ? ", network" : "");
  }
  std::vector<Blame::Kind> expected() const {
    switch (what) {
      case kIsStopped:
        return {Blame::kStopped};
      case kIsKilled:
        return {Blame::kEnded};
      case kIsHeld:
        return {Blame::kNotEntered, Blame::kLate};
      case kLeaves:
        return {Blame::kLeft};
      case kDiffers:
        return {Blame::kOtherCall};
      case kBlocksStream:
        return {Blame::kLate};
      case kOrders:
        return {Blame::kCycle};
      default:
        return {Blame::kNotEntered};
    }
  }
  bool names(const Blame& blame) const {
    const std::vector<Blame::Kind> kinds = expected();
    if (std::find(kinds.begin(), kinds.end(), blame.kind) == kinds.end()) return false;
    if (what == kOrders) return true;  // no order is the right one
    return blame.rank == culprit || (what == kDiffers && ranks == 2);
  }
};

void hold_thread(int) { nap(kLongestWait); }

// A busy machine makes any rank late for a while. Another kind of blame is no accident.
bool is_only_slow(const std::vector<Blame>& blamed) {
  return std::all_of(blamed.begin(), blamed.end(), [](const Blame& blame) {
    return blame.kind == Blame::kLate || blame.kind == Blame::kNotEntered;
  });
}

struct Comms {
  std::shared_ptr<SimulatedComm> first = make_simulated_comm(), second = make_simulated_comm();
};

SimulatedRank::Options options_of(const RankSeat& seat, const InjectedFault& fault) {
  SimulatedRank::Options options;
  options.plugin = RONDO_TEST_WATCH_PLUGIN;
  options.version = fault.version;
  options.rank = seat.rank;
  options.ranks = seat.size;
  options.network = fault.network;
  return options;
}

void hang(RankSeat& seat) {
  seat.mark(2);
  seat.wait_flag(1);
}

void make_calls(RankSeat& seat, const InjectedFault& fault, const Comms& comms) {
  const bool is_culprit = seat.rank == fault.culprit;
  if (is_culprit && fault.what == kIsHeld) signal(SIGUSR1, hold_thread);
  SimulatedRank::Options options = options_of(seat, fault);
  SimulatedRank first(options, comms.first);
  options.hash = 0x5678;
  options.name = "tensor";
  SimulatedRank second(options, comms.second);
  for (int call = 0;; ++call) {
    if (call == fault.calls) seat.mark(1);
    if (call >= fault.calls) {
      if (is_culprit && (fault.what == kStaysOutside || fault.what == kKeepsMessage))
        return hang(seat);
      if (is_culprit && fault.what == kLeaves) return first.finish(), hang(seat);
      if (is_culprit && fault.what == kDiffers)
        return first.collective("Broadcast", 7, 0), hang(seat);
      if (is_culprit && fault.what == kBlocksStream) first.block_stream(true);
      if (fault.what == kKeepsMessage) {
        if (seat.rank == (fault.culprit + 1) % seat.size)
          first.message(false, fault.culprit, fault.count);
        return hang(seat);
      }
      if (fault.what == kOrders) {
        SimulatedRank& leading = is_culprit ? second : first;
        leading.collective("AllReduce", fault.count);
        leading.wait_for_gpu();
      }
    }
    first.collective("AllReduce", fault.count);
    second.collective("AllGather", fault.count);
    first.wait_for_gpu(static_cast<std::size_t>(fault.ahead));
    second.wait_for_gpu(static_cast<std::size_t>(fault.ahead));
  }
}

void inject(RankProcesses& ranks, const InjectedFault& fault) {
  if (fault.what == kIsStopped) ranks.send(fault.culprit, SIGSTOP);
  if (fault.what == kIsKilled) ranks.send(fault.culprit, SIGKILL);
  if (fault.what == kIsHeld) ranks.send(fault.culprit, SIGUSR1);
}

struct Tally {
  int injected = 0;
  std::vector<double> named_after;  // seconds
};
using Tallies = std::map<Injected, Tally>;

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
  RankProcesses ranks(job, [&](RankSeat& seat) { make_calls(seat, fault, comms); });
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
  wait_until([&] {
    ask();
    if (blamed.empty()) nap(0.05);
    return !blamed.empty() && (fault.names(blamed[0]) || !is_only_slow(blamed));
  });
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

InjectedFault random_fault(std::mt19937& random) {
  InjectedFault fault;
  fault.what = static_cast<Injected>(random() % kInjections);
  fault.ranks = 2 + static_cast<int>(random() % 4);
  fault.culprit = static_cast<int>(random() % static_cast<unsigned>(fault.ranks));
  fault.calls = 1 + static_cast<int>(random() % 60);
  fault.ahead = static_cast<int>(random() % 3) * 4;
  fault.count = std::size_t{1} << random() % 18;
  fault.version = 4 + static_cast<int>(random() % 4);
  if (fault.version == 4) fault.version = 5;  // its layout is another test's
  fault.network = random() % 2 == 0;
  return fault;
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
  for (auto& [what, tally] : tallies) {
    std::vector<double>& after = tally.named_after;
    std::sort(after.begin(), after.end());
    fmt::print("a rank {}: {} of {} named", name_of(what), after.size(), tally.injected);
    if (!after.empty())
      fmt::print(", after {:.1f} s (median), {:.1f} s (longest)", after[after.size() / 2],
                 after.back());
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace rondo::test
