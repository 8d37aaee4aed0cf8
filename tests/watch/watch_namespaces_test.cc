// SPDX-License-Identifier: Apache-2.0
// Two ranks on each of two hosts that are network namespaces: rondo ps, asked of one process, names
// the rank of either host that the others wait for, and accuses nobody before. The processes know
// MASTER_ADDR and a secret; nothing else joins the hosts.
//
//   RONDO_TEST_WATCH_FAULTS=1000 watch_tests --gtest_filter='WatchOfNamespaces*'
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/joined_namespaces.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/processes.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"
#include "tests/watch/injected_fault.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 4;
// After the first process of another host is known. In the first moments of a job a process may
// know of each host the process alone that fails next: its host is then silent until another one of
// it is known.
constexpr std::uint64_t kCallsOfRunningJob = 2000;

// In memory of all processes: from which call on the fault is there.
struct Cue {
  std::atomic<bool> asked{false};
  std::atomic<int> from{0};
  std::atomic<std::int64_t> at_ns{0};  // when the culprit came to it

  // Before call `call`, counted by all ranks alike. No rank is `ahead` calls ahead of another one.
  bool is_faulty(int call, bool is_culprit, int ahead) {
    if (from == 0 && is_culprit && asked) from = call + ahead + 4;
    if (from == 0 || call < from) return false;
    if (is_culprit && at_ns == 0) at_ns = now_ns();
    return true;
  }
};
std::shared_ptr<Cue> make_cue() {
  void* const memory =
      mmap(nullptr, sizeof(Cue), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return {new (memory) Cue, [](Cue* cue) { munmap(cue, sizeof(*cue)); }};
}

bool knows_all(const JobView& view, std::size_t communicators) {
  return view.communicators.size() == communicators &&
         std::all_of(view.communicators.begin(), view.communicators.end(),
                     [&](const auto& one) { return one.ranks.size() == kRanks; });
}

class WatchOfNamespaces : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_) GTEST_SKIP() << "no network namespaces here";
  }
  bool enter_host(int rank) const { return rank < 2 || hosts_.go_there(); }

  Job job() const {
    Job made(as_processes(kRanks));
    made.create = false;
    made.hosts = {"near", "near", "far", "far"};
    for (const std::string& host : made.hosts)
      made.of_process.push_back({{"RONDO_STATUS_DIR", sockets_of(host)},
                                 {"MASTER_ADDR", "10.7.0.1"},
                                 {"RONDO_WATCH_SECRET", "0123456789abcdef0123456789abcdef"}});
    return made;
  }
  // Of NCCL that is Rondo's own library, unaware of the plugin.
  Job job_of_rondo() const {
    log::reset();
    Job made = job();
    for (Environment& of_process : made.of_process)
      for (const auto& [name, value] :
           Environment{{"NCCL_PROFILER_PLUGIN", RONDO_TEST_WATCH_PLUGIN},
                       {"NCCL_RAS_ENABLE", "0"},
                       {"RONDO_RECORD", "0"}})
        of_process.emplace_back(name, value);
    return made;
  }

  // What rondo ps says of the process of that rank.
  struct Answer {
    std::vector<Blame> blamed;
    bool is_whole = false;
    std::uint64_t calls = 0;  // of the rank that has made the largest number
    std::string seen;
  };
  Answer ask(const RankProcesses& ranks, int rank, std::size_t communicators) const {
    const WithEnvironment folder("RONDO_STATUS_DIR", sockets_of(rank < 2 ? "near" : "far"));
    const auto view = ask_process(ranks.pid(rank), true);
    if (!view.ok()) return {{}, false, 0, view.error().text};
    std::uint64_t calls = 0;
    for (const CommunicatorView& one : view->communicators)
      for (const RankView& each : one.ranks) calls = std::max(calls, each.call);
    return {diagnose(*view), knows_all(*view, communicators), calls, view->to_json().text(1)};
  }

  // A rank that is neither the culprit nor on its host, if that freezes.
  static int asked_of(const InjectedFault& fault) {
    return (fault.culprit + (fault.what == kHostFreezes ? 2 : 1)) % kRanks;
  }

  void expect_named(RankProcesses& ranks, const InjectedFault& fault, Cue& cue,
                    std::size_t communicators, Tallies* tallies) const {
    ASSERT_TRUE(ranks.wait_stage(1));
    const int asked = asked_of(fault);
    Answer answer;
    std::uint64_t complete_in = 0;  // call
    ASSERT_TRUE(wait_until([&] {
      answer = ask(ranks, asked, communicators);
      if (answer.is_whole && complete_in == 0) complete_in = answer.calls;
      return answer.is_whole && answer.calls >= complete_in + kCallsOfRunningJob &&
             (answer.blamed.empty() || !is_only_slow(answer.blamed));
    })) << answer.seen;
    for (const Blame& blame : answer.blamed) ADD_FAILURE() << "too early: " << blame.text;
    std::int64_t began = now_ns();
    if (fault.is_sent()) {
      inject(ranks, fault);
    } else {
      cue.asked = true;
      ASSERT_TRUE(wait_until([&] { return cue.at_ns != 0; }));
      began = cue.at_ns;
    }
    std::string wrong;
    wait_until([&] {
      answer = ask(ranks, asked, communicators);
      const std::vector<Blame>& blamed = answer.blamed;
      if (blamed.empty()) nap(0.05);
      if (blamed.empty() || fault.names(blamed[0])) return !blamed.empty();
      wrong = blamed[0].text;
      return !is_only_slow(blamed);
    });
    if (tallies != nullptr && !wrong.empty())
      (*tallies)[fault.what].wrong.push_back(fault.text() + ": " + wrong);
    ASSERT_FALSE(answer.blamed.empty()) << answer.seen;
    const Blame& first = answer.blamed[0];
    const bool named = fault.names(first);
    EXPECT_TRUE(named) << first.text << " (" << name_of(first.kind) << ")\n" << answer.seen;
    if (tallies != nullptr && named)
      (*tallies)[fault.what].named_after.push_back(static_cast<double>(now_ns() - began) * 1e-9);
  }

  void simulate(InjectedFault fault, Tallies* tallies = nullptr) const {
    SCOPED_TRACE(fault.text());
    if (tallies != nullptr) ++(*tallies)[fault.what].injected;
    fault.hosts = 2;
    const Comms comms;
    const auto cue = make_cue();
    RankProcesses ranks(job(), [&](RankSeat& seat) {
      if (!enter_host(seat.rank)) std::abort();
      make_calls(seat, fault, comms, [&](int call) {
        if (call == 3) seat.mark(1);
        return cue->is_faulty(call, seat.rank == fault.culprit, 2 * fault.ahead);
      });
    });
    expect_named(ranks, fault, *cue, 2, tallies);
  }

  void run_rondo(const InjectedFault& fault, Tallies* tallies = nullptr) const {
    SCOPED_TRACE(fault.text() + ", Rondo");
    if (tallies != nullptr) ++(*tallies)[fault.what].injected;
    const auto cue = make_cue();
    RankProcesses ranks(job_of_rondo(), [&](NcclRank& seat) {
      if (!enter_host(seat.rank)) std::abort();
      seat.join();
      make_real_calls(seat, fault, *cue);
    });
    expect_named(ranks, fault, *cue, 1, tallies);
  }

  static void make_real_calls(NcclRank& seat, const InjectedFault& fault, Cue& cue) {
    const bool is_culprit = seat.rank == fault.culprit;
    std::vector<float> in(fault.count), out(fault.count);
    for (int call = 0;; ++call) {
      if (call == 3) seat.mark(1);
      if (cue.is_faulty(call, is_culprit, 2)) {
        const bool receives = seat.rank == (fault.culprit + 1) % kRanks;
        if (fault.what == kKeepsMessage && receives)
          (void)ncclRecv(out.data(), fault.count, ncclFloat32, fault.culprit, seat.comm, nullptr);
        if (fault.what == kKeepsMessage || is_culprit) return void(seat.wait_flag(1));
      }
      if (ncclAllReduce(in.data(), out.data(), fault.count, ncclFloat32, ncclSum, seat.comm,
                        nullptr) != ncclSuccess)
        return void(seat.wait_flag(1));
    }
  }

  std::string sockets_of(const std::string& host) const { return folder_.path() + "/" + host; }
  const TemporaryFolder folder_;
  const JoinedNamespaces hosts_;
};

TEST_F(WatchOfNamespaces, NameARankOfTheOtherHost) {
  simulate({.culprit = 2});
  simulate({.what = kDiffers, .culprit = 1, .ahead = 4});
}
TEST_F(WatchOfNamespaces, NameAFrozenHost) { simulate({.what = kHostFreezes, .culprit = 3}); }
TEST_F(WatchOfNamespaces, NameARankInAJobOfRondo) {
  run_rondo({.culprit = 3});
  run_rondo({.what = kIsStopped, .culprit = 0});
}

// As many as CI affords, else as asked; a third of them in jobs of Rondo, of the kinds that it does
// not end by an error. There the caller's thread is the kernel, too: a rank that is held within a
// call looks like those that wait for it there, so only the simulated NCCL has ranks that are held.
TEST_F(WatchOfNamespaces, NameTheCulpritOfRandomFaults) {
  const char* asked = std::getenv("RONDO_TEST_WATCH_FAULTS");
  const int faults = asked == nullptr ? 3 : std::atoi(asked);
  constexpr Injected kNotEnded[] = {kStaysOutside, kIsStopped, kKeepsMessage, kHostFreezes};
  const TestSeed seed;
  std::mt19937 random(seed.value);
  Tallies simulated, of_rondo;
  for (int made = 0; made < faults && !HasFailure(); ++made) {
    InjectedFault fault = random_fault(random);
    fault.ranks = kRanks;
    fault.culprit = static_cast<int>(random() % kRanks);
    if (random() % 9 == 0) fault.what = kHostFreezes;
    if (made % 3 != 2) {
      simulate(fault, &simulated);
    } else {
      fault.what = kNotEnded[random() % std::size(kNotEnded)];
      run_rondo(fault, &of_rondo);
    }
  }
  fmt::print("seed {}: {} faults on 2 x 2 ranks; simulated NCCL:\n", seed.value, faults);
  print_and_expect(simulated);
  fmt::print("Rondo's libnccl:\n");
  print_and_expect(of_rondo);
}

// Beside processes that keep all cores busy: 10,000 calls of four ranks and more, until enough
// answers had the ranks of both hosts. The last call is one of which each rank learns by its sum.
TEST_F(WatchOfNamespaces, AccuseNobodyOfAHealthyJob) {
  constexpr std::uint64_t kCalls = 2500;
  constexpr int kWholeAnswers = 50;
  RankProcesses ranks(job_of_rondo(), [&](NcclRank& seat) {
    if (!enter_host(seat.rank)) std::abort();
    seat.join();
    std::vector<float> data(1000);
    seat.mark(1);
    do {
      data[0] = static_cast<float>(seat.board.flag == 1);
      NCCL_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, seat.comm,
                            nullptr));
    } while (data[0] == 0);
    seat.mark(2);
    seat.wait_flag(2);
  });
  Job busy(as_processes(2));
  busy.create = false;
  const RankProcesses loops(busy, [](RankSeat&) {
    for (std::atomic<int> turns{0};;) ++turns;
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  int asked = 0, whole = 0;
  Answer answer;
  EXPECT_TRUE(wait_until([&] {
    answer = ask(ranks, asked++ % kRanks, 1);
    whole += answer.is_whole ? 1 : 0;
    return !answer.blamed.empty() || (whole >= kWholeAnswers && answer.calls >= kCalls);
  })) << whole
      << " of " << asked << " answers had the ranks of both hosts\n"
      << answer.seen;
  EXPECT_TRUE(answer.blamed.empty()) << answer.blamed[0].text << '\n' << answer.seen;
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_stage(2));
  ranks.board().flag = 2;
}

}  // namespace
}  // namespace rondo::test
