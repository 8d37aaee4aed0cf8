// SPDX-License-Identifier: Apache-2.0
// Watched processes of several hosts find each other by the folder of RONDO_WATCH_DIR.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_folder.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {
namespace {

// Hosts are simulated: processes with different ids of the host and different folders of sockets.
class WatchOfHosts : public testing::Test {
 protected:
  Job job() const {
    Job made(as_processes(4));
    made.hosts = {"a", "a", "b", "b"};
    made.create = false;
    for (const std::string& host : made.hosts)
      made.of_process.push_back({{"RONDO_STATUS_DIR", sockets_of(host)},
                                 {"RONDO_WATCH_DIR", folder_.path() + "/shared"},
                                 {"NCCL_SOCKET_IFNAME", "lo"}});
    return made;
  }
  std::string sockets_of(const std::string& host) const { return folder_.path() + "/" + host; }
  Result<JobView> ask(const RankProcesses& ranks, int rank) const {
    const WithEnvironment folder("RONDO_STATUS_DIR", sockets_of(rank < 2 ? "a" : "b"));
    return ask_process(ranks.pid(rank), true);
  }
  std::vector<Blame> await_blame(const RankProcesses& ranks, int asked, std::string* seen) const {
    std::vector<Blame> blamed;
    wait_until([&] {
      const auto view = ask(ranks, asked);
      if (view.ok()) blamed = diagnose(*view);
      *seen = view.ok() ? view->to_json().text(1) : view.error().text;
      // Until the processes have found each other, those of other hosts are not asked.
      return !blamed.empty() && blamed[0].kind != Blame::kElsewhere;
    });
    return blamed;
  }
  static void make_calls(RankSeat& seat, const std::shared_ptr<SimulatedComm>& comm, int culprit) {
    SimulatedRank rank(
        {.plugin = RONDO_TEST_WATCH_PLUGIN, .rank = seat.rank, .ranks = seat.size, .hosts = 2},
        comm);
    for (int call = 0;; ++call) {
      if (call == 5) seat.mark(1);
      if (call >= 5 && seat.rank == culprit) return void(seat.wait_flag(1));
      rank.collective("AllReduce", 100);
      rank.wait_for_gpu();
    }
  }
  const TemporaryFolder folder_;
};

TEST_F(WatchOfHosts, NameTheRankOfAnotherHostThatDoesNotEnter) {
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm, 2); });
  ASSERT_TRUE(ranks.wait_stage(1));
  for (const int asked : {0, 3}) {
    std::string seen;
    const auto blamed = await_blame(ranks, asked, &seen);
    ASSERT_FALSE(blamed.empty()) << seen;
    EXPECT_EQ(blamed[0].rank, 2) << blamed[0].text << '\n' << seen;
    EXPECT_EQ(blamed[0].kind, Blame::kNotEntered) << blamed[0].text;
  }
}

TEST_F(WatchOfHosts, NameARankOfAFrozenHost) {
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm, -1); });
  ASSERT_TRUE(ranks.wait_stage(1));
  ASSERT_TRUE(wait_until([&] {  // they have found each other
    const auto view = ask(ranks, 0);
    return view.ok() && !view->communicators.empty() && view->communicators[0].ranks.size() == 4;
  }));
  ranks.send(2, SIGSTOP);
  ranks.send(3, SIGSTOP);
  std::string seen;
  const auto blamed = await_blame(ranks, 0, &seen);
  ASSERT_FALSE(blamed.empty()) << seen;
  EXPECT_EQ(blamed[0].kind, Blame::kSilent) << blamed[0].text << '\n' << seen;
  EXPECT_GE(blamed[0].rank, 2);
}

}  // namespace
}  // namespace rondo::test
