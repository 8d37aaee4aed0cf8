// SPDX-License-Identifier: Apache-2.0
// Communicators of several hosts know the topology graph of each host. It is detected once per host
// by the first rank, can be read and written through NCCL's variables, and gives networks their
// ports sorted by distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/gpu/rank_logs.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/loop/add_loop_network.h"
#include "tests/support/loop/loop_network.h"
#include "tests/support/pretended_ports.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_folder.h"
#include "topology/graph/nccl_xml.h"
#include "topology/graph/sysfs_graph.h"
#include "transport/networks/open_network.h"

namespace rondo::test {
namespace {

Job job_on(const std::vector<std::string>& hosts, const Environment& environment = {}) {
  Job job;
  job.hosts = hosts;
  job.environment = environment;
  job.create = false;
  return job;
}

const std::vector<std::string> kHostsInTurns = {"a", "b", "a", "b"};

void expect_a_sum(EngineRank& seat) {
  const Case sum{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 3001, 7};
  const std::string wrong = check_call(*seat.comm, sum, false, 1);
  seat.expect(wrong.empty(), wrong);
}

// Records which ports of this host each rank's network received.
TEST(PlacementOfHosts, NetworksGetTheHostsPortsByNearness) {
  const auto body = [](EngineRank& seat) {
    auto received = std::make_shared<topology::NearNics>();
    add_network({LoopNetwork::kName, [received](const NetworkRequest& request) {
                   *received = request.near;
                   return Result<std::unique_ptr<net::Network>>(
                       fail(StatusCode::kSystemError, "it only listens"));
                 }});
    const Status joined = seat.join(short_timeouts());
    seat.expect(received->turn == seat.rank / 2, "the rank's number on its host");
    const topology::Graph here = topology::read_sysfs_graph().value();
    std::size_t ports = 0;
    for (const topology::NicTier& tier : received->tiers) {
      ports += tier.nics.size();
      seat.expect(tier.turn <= seat.rank / 2, "no more ranks came before");
      for (const topology::NicName& nic : tier.nics)
        seat.expect(std::any_of(here.nics().begin(), here.nics().end(),
                                [&](int port) { return here.node(port).name == nic.device; }),
                    "a port that is not here: " + nic.device);
    }
    seat.expect(ports == here.nics().size(), "not all of the host's ports");
    seat.report(joined);
  };
  RankProcesses ranks(4, job_on(kHostsInTurns), body);
  ASSERT_TRUE(ranks.wait_reports());
  ranks.check_expectations();
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
}

// Detected by the first rank of each host. Children detect nothing, and neither do communicators of
// one host.
TEST(PlacementOfHosts, AreFoundOnceAHost) {
  constexpr const char* kFound = "topology of this host: ";
  for (const auto& [hosts, leaders] :
       {std::pair(kHostsInTurns, 2), std::pair(std::vector<std::string>(4, "a"), 0)}) {
    const RankLogs logs;
    const auto body = [&logs](EngineRank& seat) {
      logs.use(seat.rank);
      const Status joined = seat.join(short_timeouts());
      if (joined.ok()) expect_a_sum(seat);
      seat.report(joined);
    };
    RankProcesses ranks(4, job_on(hosts), body);
    ASSERT_TRUE(ranks.wait_reports());
    ranks.check_expectations();
    std::string last;
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(logs.count(r, kFound, &last), r < leaders ? 1 : 0) << "rank " << r;
    if (leaders == 0) continue;
    EXPECT_NE(last.find("NUMA nodes (sysfs)"), std::string::npos) << last;
  }
}

TEST(PlacementOfHosts, TheGraphIsWrittenByTheRankThatIsAsked) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/topo.xml";
  const auto body = [](EngineRank& seat) { seat.report(seat.join(short_timeouts())); };
  RankProcesses ranks(
      4, job_on(kHostsInTurns, {{"NCCL_TOPO_DUMP_FILE", path}, {"NCCL_TOPO_DUMP_FILE_RANK", "3"}}),
      body);
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  const auto written = topology::read_nccl_xml(path);
  ASSERT_TRUE(written.ok()) << written.error().text;
  const topology::Graph here = topology::read_sysfs_graph().value();
  EXPECT_EQ(written->graph.nics().size(), here.nics().size());
  EXPECT_EQ(written->graph.numa_nodes().size(), here.numa_nodes().size());
}

// Also if the file cannot be written.
TEST(PlacementOfHosts, AWrongFileIsAWarningAndNoMore) {
  const TemporaryFolder folder;
  const std::string path =
      folder.file("broken.xml", "<system>\n<cpu numaid=\"0\">\n<pci busid=\"x\"/></cpu></system>");
  const RankLogs logs;
  const auto body = [&logs](EngineRank& seat) {
    logs.use(seat.rank);
    const Status joined = seat.join(short_timeouts());
    if (joined.ok()) expect_a_sum(seat);
    seat.report(joined);
  };
  RankProcesses ranks(4,
                      job_on(kHostsInTurns, {{"NCCL_TOPO_FILE", path},
                                             {"NCCL_TOPO_DUMP_FILE", "/nowhere/topo.xml"}}),
                      body);
  ASSERT_TRUE(ranks.wait_reports());
  ranks.check_expectations();
  std::string last;
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
    EXPECT_EQ(logs.count(r, "NCCL WARN " + path + ", line 3: ", &last), r < 2 ? 1 : 0) << r;
  }
  EXPECT_EQ(logs.count(0, "NCCL WARN NCCL_TOPO_DUMP_FILE: ", &last), 1);
  EXPECT_NE(last.find("/nowhere/topo.xml"), std::string::npos) << last;
}

// NCCL_IB_HCA admits two of four ports of 100 Gb/s; it applies to RDMA only.
TEST(PlacementOfHosts, TheNetworksRateIsThatOfThePortsThatItMayUse) {
  constexpr double kPortGbs = 12.5 * 0.96;
  const TemporaryFolder root, dark;
  pretend_four_ports(root, "100 Gb/sec (4X EDR)");
  pretend_four_ports(dark, "100 Gb/sec (4X EDR)");
  dark.file("sys/class/infiniband/mlx5_3/ports/1/rate", "\n");
  struct Asked {
    const char* network;
    std::vector<std::string> hosts;
    std::string root, hca;
    double gbs;
  };
  const std::vector<std::string> one_host(4, "a");
  for (const Asked& asked :
       {Asked{"IB", kHostsInTurns, root.path(), "mlx5_1,mlx5_2", 2 * kPortGbs},
        Asked{"IB", kHostsInTurns, root.path(), "", 4 * kPortGbs},
        Asked{"IB", kHostsInTurns, root.path(), "mthca0", 0},
        Asked{"Socket", kHostsInTurns, root.path(), "mlx5_1,mlx5_2", 4 * kPortGbs},
        Asked{"IB", kHostsInTurns, dark.path(), "", 0},
        Asked{"IB", kHostsInTurns, dark.path(), "^mlx5_3", 3 * kPortGbs},
        Asked{"Socket", one_host, root.path(), "", 0}}) {
    const auto body = [&asked](EngineRank& seat) {
      add_loop_network({}, "IB");
      CommOptions options = short_timeouts();
      options.network = asked.network;
      const Status joined = seat.join(options);
      if (joined.ok()) {
        EXPECT_NEAR(seat.comm->network_gbs(), asked.gbs, 1e-9);
      }
      seat.report(joined);
    };
    SCOPED_TRACE(std::string(asked.network) + " " + asked.hca);
    RankProcesses ranks(
        4, job_on(asked.hosts, {{"RONDO_SYS_ROOT", asked.root}, {"NCCL_IB_HCA", asked.hca}}), body);
    ASSERT_TRUE(ranks.wait_reports());
    ranks.check_expectations();
    for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  }
}

}  // namespace
}  // namespace rondo::test
