// SPDX-License-Identifier: Apache-2.0
// rondo ps PID --hosts A,B asks hosts that the user names, by ssh. Here a script takes the place of
// ssh, and hosts have different folders of status sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "tests/bench/shell.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_folder.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {
namespace {

using testing::HasSubstr;

class NamedHosts : public testing::Test {
 protected:
  NamedHosts() {
    std::ofstream(agent_) << "#!/bin/sh\n"
                             "[ \"$1\" != gone ] || { echo no route to it >&2; exit 255; }\n"
                             "[ \"$1\" != odd ] || exec echo nonsense\n"
                             "exec sh -c \"$(printf '%s' \"$2\" | sed \"s|RONDO_STATUS_DIR='[^']*'|"
                             "RONDO_STATUS_DIR="
                          << folder_.path() << "/$1|\")\"\n";
    chmod(agent_.c_str(), 0700);
  }
  Job job() const {
    Job made(as_processes(4));
    made.hosts = {"a", "a", "b", "b"};
    made.create = false;
    for (const std::string& host : made.hosts)
      made.of_process.push_back({{"RONDO_STATUS_DIR", folder_.path() + "/" + host}});
    return made;
  }
  // Of rank 0, on host a.
  ShellResult ps(const RankProcesses& ranks, const std::string& options) const {
    return shell(fmt::format("RONDO_STATUS_DIR={}/a {} ps {} {}", folder_.path(),
                             RONDO_TEST_PROGRAM, ranks.pid(0), options));
  }
  std::string by_agent(const std::string& hosts) const {
    return fmt::format("--hosts {} --agent {}", hosts, agent_);
  }
  // Rank 2 does not enter call 4.
  static void make_calls(RankSeat& seat, const std::shared_ptr<SimulatedComm>& comm) {
    SimulatedRank rank(
        {.plugin = RONDO_TEST_WATCH_PLUGIN, .rank = seat.rank, .ranks = seat.size, .hosts = 2},
        comm);
    for (int call = 0; call < 3; ++call) {
      rank.collective("AllReduce", 100);
      rank.wait_for_gpu();
    }
    if (seat.rank != 2) rank.collective("AllReduce", 100);
    seat.mark(1);
    seat.wait_flag(1);
  }
  const TemporaryFolder folder_;
  const std::string agent_ = folder_.path() + "/agent";
};

TEST_F(NamedHosts, ShowTheRanksThatTheProcessDoesNotKnow) {
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm); });
  ASSERT_TRUE(ranks.wait_stage(1));
  ShellResult shown;
  EXPECT_TRUE(eventually([&] {
    shown = ps(ranks, "--hosts");
    return shown.text.find("are on hosts that were not asked") != std::string::npos;
  })) << shown.text;
  EXPECT_THAT(shown.text, HasSubstr(fmt::format("rondo ps {} --hosts NODE1,NODE2", ranks.pid(0))));
  EXPECT_TRUE(eventually([&] {
    shown = ps(ranks, by_agent("b"));
    return shown.text.find("rank 2 (pid") != std::string::npos;
  })) << shown.text;
  EXPECT_THAT(shown.text, HasSubstr("has not entered call 4, AllReduce"));
  EXPECT_THAT(shown.text, HasSubstr(fmt::format("rank 3    pid {}", ranks.pid(3))));
  EXPECT_EQ(shown.status, 0);
  ranks.board().flag = 1;
}

TEST_F(NamedHosts, AreReportedWhereTheyDoNotAnswer) {
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm); });
  ASSERT_TRUE(ranks.wait_stage(1));
  ShellResult shown;
  EXPECT_TRUE(eventually([&] {
    shown = ps(ranks, by_agent("gone,b,odd"));
    return shown.text.find("rank 2 (pid") != std::string::npos;
  })) << shown.text;
  EXPECT_THAT(shown.text, HasSubstr("gone (no route to it) did not answer"));
  EXPECT_THAT(shown.text, HasSubstr("odd (an answer that is no status"));
  EXPECT_EQ(ps(ranks, by_agent("b,,a")).status, 1);
  shown = ps(ranks, "--hosts=-oProxyCommand=x");
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.text, HasSubstr("'-oProxyCommand=x' is no name of a host"));
  shown = ps(ranks, "--hosts b --agent /no/such/program");
  EXPECT_THAT(shown.text, HasSubstr("b (there is no program /no/such/program) did not answer"));
  ranks.board().flag = 1;
}

}  // namespace
}  // namespace rondo::test
