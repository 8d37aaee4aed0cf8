// SPDX-License-Identifier: Apache-2.0
// The status of a job that hangs names the rank that the others wait for, for every kind of fault
// and stall; before that, it accuses nobody.
//
//   RONDO_TEST_STATUS_FAULTS=1000 engine_tests --gtest_filter='StatusOfFaults*'
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "base/seconds.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/seed.h"
#include "tests/support/status_job.h"

namespace rondo::test {
namespace {

enum Injected {
  kStaysOutside,  // makes no further call
  kIsStopped,     // SIGSTOP
  kIsKilled,      // SIGKILL
  kIsHeld,        // its thread hangs where it is: in a call, or between two calls
  kLeaves,        // destroys its communicator
  kDiffers,       // makes another call
  kTurnsAway,     // all ranks receive from the next one, in a cycle
  kNeverJoins,    // does not come to the communicator
  kHostFreezes,   // all processes of its host are stopped
  kInjections
};
const char* name_of(Injected what) {
  constexpr const char* kNames[] = {"stays outside", "is stopped",  "is killed",
                                    "is held",       "leaves",      "makes another call",
                                    "is in a cycle", "never joins", "is on a frozen host"};
  return kNames[what];
}

struct InjectedFault {
  Injected what = kStaysOutside;
  int ranks = 4, culprit = 0;
  int calls = 3;  // before the fault
  std::size_t count = 100;
  Collective collective = Collective::kAllReduce;
  Hosts hosts{};

  // By a signal to the rank; else the rank does it itself, in call `calls`.
  bool is_sent() const {
    return what == kIsStopped || what == kIsKilled || what == kIsHeld || what == kHostFreezes;
  }
  bool is_on(int rank, const std::string& host) const {
    return !hosts.empty() && hosts[rank] == host;
  }
  bool is_alone() const {
    return !hosts.empty() && std::count(hosts.begin(), hosts.end(), hosts[culprit]) == 1;
  }
  std::string text() const {
    return fmt::format("rank {} of {} on {} hosts {} after {} calls of {} x {}", culprit, ranks,
                       hosts.empty() ? 1 : 2, name_of(what), calls, name(collective), count);
  }
  std::vector<Blame::Kind> expected() const {
    switch (what) {
      case kIsStopped:
        // Nobody else of its host can tell that it is stopped.
        return is_alone() ? std::vector{Blame::kSilent} : std::vector{Blame::kStopped};
      case kIsKilled:
        // From another host, an ended process looks like a connection that has ended.
        return hosts.empty() ? std::vector{Blame::kEnded}
                             : std::vector{Blame::kEnded, Blame::kFault};
      case kIsHeld:
        return {Blame::kLate, Blame::kNotEntered};
      case kLeaves:
        return {Blame::kLeft, Blame::kFault};
      case kDiffers:
      case kTurnsAway:
        return {Blame::kFault};
      case kNeverJoins:
        return {Blame::kNotJoined};
      case kHostFreezes:
        return {Blame::kSilent};
      default:
        return {Blame::kNotEntered};
    }
  }
  bool names(const Blame& blame) const {
    const std::vector<Blame::Kind> kinds = expected();
    if (std::find(kinds.begin(), kinds.end(), blame.kind) == kinds.end()) return false;
    if (what == kTurnsAway) return true;  // all ranks are equally at fault
    // Two ranks that differ are equally at fault.
    if (what == kDiffers && ranks == 2) return true;
    if (what == kHostFreezes) return is_on(blame.rank, hosts[culprit]);
    return blame.rank == culprit;
  }
  // Of a mismatch, two ranks may be named: while no third one has made its call, either may be it.
  bool is_named_by(const std::vector<Blame>& blamed) const {
    return std::any_of(blamed.begin(), blamed.end(), [&](const Blame& blame) {
      const bool is_first = &blame == &blamed[0];
      return (is_first || (what == kDiffers && blame.waiters == blamed[0].waiters)) && names(blame);
    });
  }
};

void hold_thread(int) { nap(kLongestWait); }

// A busy machine makes any rank late for a while, also to join or to answer. Another kind of blame
// is no accident.
bool is_only_slow(const std::vector<Blame>& blamed) {
  return std::all_of(blamed.begin(), blamed.end(), [](const Blame& blame) {
    return blame.kind == Blame::kLate || blame.kind == Blame::kNotEntered ||
           blame.kind == Blame::kSilent || blame.kind == Blame::kNotJoined;
  });
}

// The culprit's own part in call `fault.calls`. False: it makes no further call.
bool commit_fault(EngineRank& seat, const InjectedFault& fault) {
  if (fault.what == kLeaves) seat.comm.reset();
  if (fault.what == kStaysOutside || fault.what == kLeaves) return false;
  if (fault.what == kDiffers) {
    const auto other = fault.collective == Collective::kAllReduce ? Collective::kAllGather
                                                                  : Collective::kAllReduce;
    SampleCall sample(other, fault.count, fault.ranks);
    (void)seat.comm->run({&sample.call, 1}).ok();
    return false;
  }
  return true;
}

// Ranks make calls until one fails.
void make_calls(EngineRank& seat, const InjectedFault& fault) {
  const bool is_culprit = seat.rank == fault.culprit;
  if (is_culprit && fault.what == kIsHeld) signal(SIGUSR1, hold_thread);
  if (fault.what == kNeverJoins) {
    seat.mark(1);
    if (!is_culprit) (void)seat.join(short_timeouts()).ok();
    seat.wait_flag(1);
    return;
  }
  std::vector<int> buffer(fault.count);
  for (int call = 0;; ++call) {
    if (call == fault.calls) seat.mark(1);
    if (call >= fault.calls && is_culprit && !commit_fault(seat, fault)) break;
    SampleCall sample(fault.collective, fault.count, fault.ranks);
    Call received = message(Collective::kRecv, (seat.rank + 1) % seat.size, buffer.data(), 1);
    const bool turns = fault.what == kTurnsAway && call >= fault.calls;
    if (!seat.comm->run({turns ? &received : &sample.call, 1}).ok()) break;
  }
  seat.mark(2);
  seat.wait_flag(1);
}

struct Tally {
  int injected = 0;
  std::vector<double> named_after;  // seconds
};
using Tallies = std::map<Injected, Tally>;

void inject(RankProcesses& ranks, const InjectedFault& fault) {
  if (fault.what == kIsStopped) ranks.send(fault.culprit, SIGSTOP);
  if (fault.what == kIsKilled) ranks.send(fault.culprit, SIGKILL);
  if (fault.what == kIsHeld) ranks.send(fault.culprit, SIGUSR1);
  for (int rank = 0; fault.what == kHostFreezes && rank < fault.ranks; ++rank)
    if (fault.is_on(rank, fault.hosts[fault.culprit])) ranks.send(rank, SIGSTOP);
}

void expect_named(const InjectedFault& fault, Tallies* tallies = nullptr) {
  SCOPED_TRACE(fault.text());
  if (tallies != nullptr) ++(*tallies)[fault.what].injected;
  const StatusJob status;
  ::rondo::test::Job job = status.job(fault.hosts);
  job.create = fault.what != kNeverJoins;
  RankProcesses ranks(fault.ranks, job, [&](EngineRank& seat) { make_calls(seat, fault); });
  ASSERT_TRUE(ranks.wait_stage(1));
  int asked = (fault.culprit + 1) % fault.ranks;
  while (fault.what == kHostFreezes && fault.hosts[asked] == fault.hosts[fault.culprit])
    asked = (asked + 1) % fault.ranks;
  const bool all_hosts = !fault.hosts.empty();
  std::vector<Blame> blamed;
  std::string seen;
  const auto ask = [&] {
    const auto view = ask_process(ranks.pid(asked), all_hosts);
    // A rank that joins has no status in its first moments.
    if (view.ok()) blamed = diagnose(*view);
    seen = view.ok() ? view->to_json().text(1) : view.error().text;
    return view.ok();
  };
  if (fault.is_sent()) {
    ASSERT_TRUE(wait_until([&] { return !ask() || blamed.empty() || !is_only_slow(blamed); }));
    for (const Blame& blame : blamed) ADD_FAILURE() << "too early: " << blame.text;
  }
  inject(ranks, fault);
  const std::int64_t began = now_ns();
  wait_until([&] {
    ask();
    if (blamed.empty()) nap(0.05);
    return fault.is_named_by(blamed) || !is_only_slow(blamed);
  });
  ASSERT_FALSE(blamed.empty()) << seen;
  const bool named = fault.is_named_by(blamed);
  EXPECT_TRUE(named) << blamed[0].text << " (" << name_of(blamed[0].kind) << ")\n" << seen;
  if (tallies != nullptr && named)
    (*tallies)[fault.what].named_after.push_back(static_cast<double>(now_ns() - began) * 1e-9);
}

InjectedFault random_fault(std::mt19937& random) {
  constexpr Collective kCalls[] = {Collective::kAllReduce, Collective::kAllGather,
                                   Collective::kReduceScatter, Collective::kAllToAll};
  InjectedFault fault;
  fault.what = static_cast<Injected>(random() % kInjections);
  fault.ranks = 2 + static_cast<int>(random() % 5);
  fault.culprit = static_cast<int>(random() % static_cast<unsigned>(fault.ranks));
  fault.calls = static_cast<int>(random() % 100);
  fault.count = std::size_t{1} << random() % 18;
  fault.collective = kCalls[random() % std::size(kCalls)];
  if (random() % 3 == 0 || fault.what == kHostFreezes)
    for (int rank = 0; rank < fault.ranks; ++rank)
      fault.hosts.push_back(rank < (fault.ranks + 1) / 2 ? "a" : "b");
  return fault;
}

TEST(StatusOfFaults, NamesARankThatDoesNotEnterACall) { expect_named({.culprit = 2}); }
TEST(StatusOfFaults, NamesAStoppedRank) {
  expect_named({.what = kIsStopped, .culprit = 1, .count = 5000});
}
TEST(StatusOfFaults, NamesADeadRank) { expect_named({.what = kIsKilled, .culprit = 3}); }
TEST(StatusOfFaults, NamesARankOfAnotherHost) {
  expect_named({.culprit = 2, .hosts = {"a", "a", "b", "b"}});
  expect_named({.what = kIsStopped, .culprit = 0, .hosts = {"a", "a", "b", "b"}});
}
TEST(StatusOfFaults, NamesAFrozenHost) {
  expect_named({.what = kHostFreezes, .culprit = 3, .hosts = {"a", "a", "b", "b"}});
}
TEST(StatusOfFaults, NamesTheRankThatMadeAnotherCall) {
  expect_named({.what = kDiffers, .culprit = 1});
  expect_named({.what = kDiffers, .culprit = 2, .hosts = {"a", "a", "b", "b"}});
}
TEST(StatusOfFaults, NamesARankThatHangsInACallOrHasLeft) {
  expect_named({.what = kIsHeld, .culprit = 2, .count = 5000});
  expect_named({.what = kLeaves, .culprit = 2});
  expect_named({.what = kTurnsAway});
}
TEST(StatusOfFaults, NamesARankThatNeverJoinsFromEveryRankThatWaits) {
  for (const int culprit : {0, 1, 3})
    expect_named({.what = kNeverJoins, .culprit = culprit, .hosts = {"a", "a", "b", "b"}});
}

TEST(StatusOfFaults, NamesTheCulpritOfRandomFaults) {
  const char* asked = std::getenv("RONDO_TEST_STATUS_FAULTS");
  const int faults = asked == nullptr ? 4 : std::atoi(asked);
  const TestSeed seed;
  std::mt19937 random(seed.value);
  Tallies tallies;
  constexpr int kMaxFailures = 20;
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  int made = 0;
  for (int failed = 0; made < faults && failed < kMaxFailures; ++made) {
    const int parts = result.total_part_count();
    expect_named(random_fault(random), &tallies);
    failed += result.total_part_count() > parts;
  }
  fmt::print("seed {}: {} faults\n", seed.value, made);
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
