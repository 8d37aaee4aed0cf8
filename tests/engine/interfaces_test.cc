// Ranks on two hosts of which the kernel does not call the wire between them running yet (it says
// so up to a second after the wire is up): they announce addresses at which they can be reached.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/engine_rank.h"
#include "tests/support/joined_namespaces.h"
#include "tests/support/ports.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

// It carries packets, and stays in the state that it is in just after it came up.
constexpr const char* kYoungWire = "ip link set $wire mode dormant";
// Beside it another interface is running, which leads to nobody.
constexpr const char* kBesideAnother =
    "ip link set $wire mode dormant && ip link add own type veth peer name own-end && "
    "ip addr add 10.8.0.1/24 dev own && ip link set own up && ip link set own-end up";

struct Outcome {
  StatusCode status[2];
  std::string text[2];
};

// Rank 0 here and rank 1 there make a communicator and a sum. only_there: rank 1's own variables.
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
    if (const Status joined = seat.join(short_timeouts(20)); !joined.ok())
      return seat.report(joined);
    SampleCall sample(Collective::kAllReduce, 1000, seat.size);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ranks.wait_reports(60);
  ranks.wait_exits(60);
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

TEST(YoungInterfaces, LeadToTheirRanksWhereRanksMetByThem) {
  const JoinedNamespaces hosts(kBesideAnother);
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  expect_success(sum_of_two_hosts(hosts, {{"NCCL_COMM_ID", meet_at_near()}}));
}

TEST(YoungInterfaces, ARankWithLoopbackAddressesAloneIsRefusedAndSaysWhy) {
  const JoinedNamespaces hosts;
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  const Outcome outcome =
      sum_of_two_hosts(hosts, {{"NCCL_COMM_ID", meet_at_near()}}, {{"NCCL_SOCKET_IFNAME", "^far"}});
  EXPECT_EQ(outcome.status[1], StatusCode::kInvalidUsage) << outcome.text[1];
  EXPECT_NE(outcome.text[1].find("loopback addresses alone"), std::string::npos) << outcome.text[1];
  EXPECT_NE(outcome.text[0].find("rank 1 could not set up"), std::string::npos) << outcome.text[0];
  EXPECT_NE(outcome.text[0].find("loopback addresses alone"), std::string::npos) << outcome.text[0];
}

TEST(YoungInterfaces, ARankThatNamesLoIsBelieved) {
  const JoinedNamespaces hosts;
  if (!hosts) GTEST_SKIP() << "no network namespaces here";
  Job job(as_processes(2));
  job.hosts = {"one", "two"};  // both here
  job.comm = short_timeouts(20);
  job.environment = {{"NCCL_COMM_ID", meet_at_near()}, {"NCCL_SOCKET_IFNAME", "lo"}};
  run_job(job, [](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 1000, seat.size);
    seat.expect(seat.comm->run({&sample.call, 1}).ok(), "no sum");
  });
}

}  // namespace
}  // namespace rondo::test
