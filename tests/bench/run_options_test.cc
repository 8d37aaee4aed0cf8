// SPDX-License-Identifier: Apache-2.0
// rondo run --bind and --log-dir.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"
#include "topology/host_topology.h"

namespace rondo::cli {
namespace {

using testing::HasSubstr;
using topology::Binding;
using topology::CpuList;
using topology::HostTopology;

// Two NUMA nodes of three cores with two hardware threads each.
HostTopology two_nodes() {
  HostTopology host;
  host.numa_nodes = {{0, 0, {0, 1, 2, 6, 7, 8}}, {1, 0, {3, 4, 5, 9, 10, 11}}};
  for (int core = 0; core < 6; ++core) host.physical_cores.push_back({core, core + 6});
  host.cpus = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  return host;
}

TEST(DealCpus, GivesRanksNeighbouringCoresWithAllTheirThreads) {
  const HostTopology host = two_nodes();
  using Dealt = std::vector<CpuList>;
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kCores, 2),
            (Dealt{{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kCores, 4),
            (Dealt{{0, 6}, {1, 2, 7, 8}, {3, 9}, {4, 5, 10, 11}}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kNumaNodes, 3),
            (Dealt{{0, 1, 2, 6, 7, 8}, {0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kNumaNodes, 1), (Dealt{{0, 1, 2, 6, 7, 8}}));
}

TEST(DealCpus, DealsOnlyWhatThisProcessMayUseAndSharesWhereThereIsTooLittle) {
  const HostTopology host = two_nodes();
  using Dealt = std::vector<CpuList>;
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kCores, 2), (Dealt{{2}, {3, 9}}));
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kCores, 4), (Dealt{{2}, {2}, {3, 9}, {3, 9}}));
  EXPECT_EQ(deal_cpus(host, {4}, Binding::kNumaNodes, 2), (Dealt{{4}, {4}}));
  EXPECT_EQ(deal_cpus(HostTopology{}, {4, 5}, Binding::kCores, 1), (Dealt{{4, 5}}));
}

TEST(DealCpus, LeavesNoCoreUnusedAndNoRankWithout) {
  const HostTopology host = two_nodes();
  for (int ranks = 1; ranks <= 13; ++ranks) {
    std::set<int> used;
    for (const CpuList& cpus : deal_cpus(host, host.cpus, Binding::kCores, ranks)) {
      EXPECT_FALSE(cpus.empty());
      used.insert(cpus.begin(), cpus.end());
    }
    EXPECT_EQ(used.size(), 12u) << ranks;
  }
}

std::string rondo_run(const std::string& arguments) {
  return shell(std::string(RONDO_PROGRAM) + " run " + arguments).text;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return (std::stringstream() << file.rdbuf()).str();
}

TEST(RunOptions, BindKeepsEachRankOnItsCpus) {
  const CpuList allowed = topology::affinity_cpus();
  if (allowed.size() < 2) GTEST_SKIP() << "one CPU";
  const std::string text =
      rondo_run("-n 2 --bind cores -- sh -c 'grep Cpus_allowed_list /proc/self/status'");
  const auto host = topology::discover();
  ASSERT_TRUE(host.ok());
  const auto dealt = deal_cpus(*host, allowed, Binding::kCores, 2);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_THAT(text, HasSubstr(fmt::format("[{}] Cpus_allowed_list:\t{}\n", rank,
                                            topology::to_text(dealt[rank]))));
}

TEST(RunOptions, LogDirKeepsEachRanksOutputInAFile) {
  const test::TemporaryFolder folder;
  const std::string logs = folder.path() + "/not/there/yet";
  const std::string text = rondo_run("-n 2 --log-dir " + logs +
                                     " -- sh -c 'echo out $RANK; echo err $RANK >&2; printf end'");
  for (const char* rank : {"0", "1"}) {
    const std::string log = text_of(logs + "/" + rank + ".log");
    for (const char* line : {"out ", "err "}) EXPECT_THAT(log, HasSubstr(line + std::string(rank)));
    EXPECT_THAT(log, HasSubstr("end\n"));
    EXPECT_EQ(log.find('['), std::string::npos) << log;
    EXPECT_THAT(text, HasSubstr("[" + std::string(rank) + "] out " + rank));
  }
}

TEST(RunOptions, ALogFileThatCannotBeWrittenIsReportedAndTheJobGoesOn) {
  const test::TemporaryFolder folder;
  // A file in the folder's place, and a link in a log's place.
  const std::string file = folder.file("file", "");
  EXPECT_THAT(rondo_run("-n 1 --log-dir " + file + " -- true"), HasSubstr("--log-dir " + file));
  ASSERT_EQ(symlink(file.c_str(), (folder.path() + "/0.log").c_str()), 0);
  EXPECT_THAT(rondo_run("-n 1 --log-dir " + folder.path() + " -- true"), HasSubstr("/0.log"));
  if (geteuid() != 0) GTEST_SKIP() << "the rest makes a device";
  // A full disk.
  const test::TemporaryFolder full;
  ASSERT_EQ(mknod((full.path() + "/0.log").c_str(), S_IFCHR | 0666, makedev(1, 7)), 0);
  const std::string text =
      rondo_run("-n 1 --log-dir " + full.path() + " -- sh -c 'echo one; echo two'");
  EXPECT_THAT(text, HasSubstr("No space left on device; the rest of rank 0's output is not in it"));
  EXPECT_THAT(text, HasSubstr("[0] two"));
}

TEST(RunOptions, AreForProcesses) {
  EXPECT_THAT(rondo_run("-n 1 --threads --bind numa -- true"), HasSubstr("leave --threads out"));
}

}  // namespace
}  // namespace rondo::cli
