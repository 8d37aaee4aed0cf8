// SPDX-License-Identifier: Apache-2.0
// Two hosts whose interface the kernel does not report as running yet (this can last 1 s after the
// link is up) still announce addresses at which they can be reached.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/engine_rank.h"
#include "tests/support/joined_namespaces.h"
#include "tests/support/ports.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

// The link carries packets, and stays in the state just after it came up.
constexpr const char* kYoungWire = "ip link set $wire mode dormant";
// A second interface is running, but connects to no rank.
constexpr const char* kBesideAnother =
    "ip link set $wire mode dormant && ip link add own type veth peer name own-end && "
    "ip addr add 10.8.0.1/24 dev own && ip link set own up && ip link set own-end up";

struct Outcome {
  StatusCode status[2];
  std::string text[2];
};

// Rank 0 here and rank 1 on the other host make a communicator and a sum. only_there: variables of
// rank 1 alone.
Outcome sum_of_two_hosts(const JoinedNamespaces& hosts, const Environment& environment,
                         const Environment& only_there = {}) {
  Job job;
  job.create = false;
  job.hosts = {"near", "far"};
  job.environment = environment;
  RankProcesses ranks(2, job, [&](EngineRank& seat) {
    if (seat.rank == 1) {
      for (const auto& [name, value] : only_there) setenv(name.c_str(), value.c_str(), 1);
      if (!hosts.go_there()) return seat.report(fail(StatusCode::kInternalError, "setns"));
    }
    if (const Status joined = seat.join(short_timeouts()); !joined.ok()) return seat.report(joined);
    SampleCall sample(Collective::kAllReduce, 1000, seat.size);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ranks.wait_reports();
  ranks.wait_exits();
  return {{ranks.status(0), ranks.status(1)}, {ranks.text(0), ranks.text(1)}};
}

void expect_success(const Outcome& outcome) {
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(outcome.status[rank], StatusCode::kSuccess)
        << "rank " << rank << ": " << outcome.text[rank];
}

std::string meet_at_near() { return "10.7.0.1:" + std::to_string(reserved_port()); }

TEST(YoungInterfaces, LeadToTheirRanksThoughNoOtherIsThere) {
  const JoinedNamespaces hosts(kYoungWire);
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  expect_success(sum_of_two_hosts(hosts, {}));
}

TEST(YoungInterfaces, LeadToTheirRanksWhereRanksJoinedByThem) {
  const JoinedNamespaces hosts(kBesideAnother);
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  expect_success(sum_of_two_hosts(hosts, {{"NCCL_COMM_ID", meet_at_near()}}));
}

TEST(YoungInterfaces, ARankWithLoopbackAddressesAloneIsRefusedWithTheReason) {
  const JoinedNamespaces hosts;
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  const Outcome outcome =
      sum_of_two_hosts(hosts, {{"NCCL_COMM_ID", meet_at_near()}}, {{"NCCL_SOCKET_IFNAME", "^far"}});
  EXPECT_EQ(outcome.status[1], StatusCode::kInvalidUsage) << outcome.text[1];
  EXPECT_NE(outcome.text[1].find("only at loopback addresses"), std::string::npos)
      << outcome.text[1];
  EXPECT_NE(outcome.text[0].find("rank 1 could not set up"), std::string::npos) << outcome.text[0];
  EXPECT_NE(outcome.text[0].find("only at loopback addresses"), std::string::npos)
      << outcome.text[0];
}

TEST(YoungInterfaces, ARankThatNamesLoIsBelieved) {
  const JoinedNamespaces hosts;
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  Job job(as_processes(2));
  job.hosts = {"one", "two"};  // both in this namespace
  job.comm = short_timeouts();
  job.environment = {{"NCCL_COMM_ID", meet_at_near()}, {"NCCL_SOCKET_IFNAME", "lo"}};
  run_job(job, [](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 1000, seat.size);
    seat.expect(seat.comm->run({&sample.call, 1}).ok(), "no sum");
  });
}

}  // namespace
}  // namespace rondo::test
