// SPDX-License-Identifier: Apache-2.0
// Emulated GPUs placed as in a topology file: kernels pass bytes along the rings that the search
// finds for it, on one host and between two. Network ports are this machine's (ports of the file
// that do not exist here are ignored), or those of a fake /sys.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "api/rondo.h"
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/fixture_file.h"
#include "tests/support/pretended_ports.h"

namespace rondo::test {
namespace {

Environment wired_by(const std::string& file) {
  return {{"RONDO_SIMT", "topology=" + file}, {"NCCL_TOPO_FILE", file}};
}
Environment wired_as(const std::string& name) { return wired_by(fixture_file(name)); }
// The even GPUs form one host, the odd ones another (two-hosts.xml).
const Layout kTwoHosts{{{0, 2, 4, 6}, {1, 3, 5, 7}}, {"a", "b"}};

Environment logged(const RankLogs& logs) {
  return {{"NCCL_DEBUG", "INFO"},
          {"NCCL_DEBUG_SUBSYS", "ALL"},
          {"NCCL_DEBUG_FILE", logs.file(0) + ".%p"}};
}
// All lines of all processes that contain `what`.
std::vector<std::string> lines_with(const RankLogs& logs, const std::string& what) {
  std::vector<std::string> found;
  const auto folder = std::filesystem::path(logs.file(0)).parent_path();
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);)
      if (line.find(what) != std::string::npos) found.push_back(line.substr(line.find(what)));
  }
  return found;
}

struct Wired {
  const char* name;
  const char* machine;
  Layout layout;
  int rings;  // 0: depends on this machine's ports
};

class Channels : public testing::TestWithParam<Wired> {
 protected:
  void SetUp() override {
#ifndef RONDO_SIMT
    GTEST_SKIP() << "real GPUs are where they are";
#endif
  }
  void run(const NcclBody& body, const Environment& more = {}) const {
    Layout layout = GetParam().layout.under(wired_as(GetParam().machine));
    if (!layout.hosts.empty())
      layout = layout.under({{"RONDO_GPU_RELAY", "1"}, {"RONDO_GPU_STAGING", "64K"}});
    run_job(layout.under({{"NCCL_BUFFSIZE", "4096"}, {"NCCL_MIN_CTAS", "4"}}).under(more), body);
  }
};

TEST_P(Channels, GiveTheReferencesResults) {
  for (const char* algorithm : {"ring", "tree"}) {
    const RankLogs logs;
    Environment more = logged(logs);
    more.emplace_back("NCCL_ALGO", algorithm);
    const bool tree = std::string(algorithm) == "tree";
    run(
        [tree](NcclRank& seat) {
          int number = 0;
          for (const Collective which :
               {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                Collective::kAllGather, Collective::kReduceScatter}) {
            if (tree && which == Collective::kAllGather) return;  // trees have no blocks
            for (const std::size_t count : {1, 37, 5000}) {
              const int root = number++ % seat.size;
              run_case(seat, {which, DataType::kInt32, RedOp::kSum, seat.size, root, count, 7},
                       {count % 2 == 0, 0, false});
              if (testing::Test::HasFatalFailure()) return;
            }
          }
        },
        more);
    const std::vector<std::string> output = lines_with(logs, "channels: ");
    ASSERT_EQ(output.size(), 1u) << algorithm;
    const std::string wanted = "channels: " + std::to_string(GetParam().rings) + " rings";
    EXPECT_TRUE(GetParam().rings == 0 || output[0].starts_with(wanted)) << output[0];
    EXPECT_TRUE(lines_with(logs, "NCCL WARN").empty());
  }
}

TEST_P(Channels, DoEveryOperationOnEveryType) {
  run(
      [](NcclRank& seat) {
        reduce_every_type_and_operation(
            seat, {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}, 3);
      },
      {{"NCCL_ALGO", "ring,tree"}});
}

// x += the sum of all ranks' x, by replays of a graph and plain calls.
TEST_P(Channels, AreReplayed) {
  run(
      [](NcclRank& seat) {
        constexpr std::size_t kCount = 3000;
        DeviceBuffer buffer(kCount * sizeof(std::int64_t), 0);
        Bytes ones(kCount * sizeof(std::int64_t));
        for (std::size_t i = 0; i < kCount; ++i) ones[i * sizeof(std::int64_t)] = std::byte{1};
        buffer.put(ones, 0, seat.stream);
        const auto call = [&] {
          NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt64, ncclSum, seat.comm,
                                seat.stream));
        };
        void* graph = nullptr;
        GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
        call();
        GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
        std::int64_t wanted = 1;
        for (int i = 0; i < 3; ++i) {
          GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
          call();
          wanted *= seat.size * seat.size;
        }
        buffer.get(seat.stream);
        for (std::size_t i = 0; i < kCount; ++i) {
          std::int64_t got = 0;
          std::memcpy(&got, buffer.host() + i * sizeof(got), sizeof(got));
          ASSERT_EQ(got, wanted) << "element " << i;
        }
        GPU_OK(gpu_api()->destroy_graph(graph));
      },
      {{"NCCL_ALGO", "ring"}});
}

const Wired kWired[] = {
    {"dgx_1v_threads", "dgx-1v", {{{0, 1, 2, 3, 4, 5, 6, 7}}}, 6},
    {"dgx_1v_processes", "dgx-1v", {{{0, 1}, {2}, {3}}}, 4},
    {"two_hosts", "../gpu/two-hosts", kTwoHosts, 0},
    {"taking_turns", "../gpu/two-hosts", {{{0}, {1}, {2}, {3}}, {"a", "b", "a", "b"}}, 0},
};
INSTANTIATE_TEST_SUITE_P(Machines, Channels, testing::ValuesIn(kWired),
                         [](const auto& info) { return std::string(info.param.name); });

// Ranks in separate processes, so that one can be killed, along rings that are not in rank order.
class ChannelFaults : public Channels {};
const Wired kApart[] = {
    {"dgx_1v", "dgx-1v", {{{0}, {1}, {2}, {3}}}, 4},
    {"taking_turns", "../gpu/two-hosts", {{{0}, {1}, {2}, {3}}, {"a", "b", "a", "b"}}, 0},
};
INSTANTIATE_TEST_SUITE_P(Machines, ChannelFaults, testing::ValuesIn(kApart),
                         [](const auto& info) { return std::string(info.param.name); });

Environment faults_of(const Wired& wired, const RankLogs& logs) {
  Environment more = wired_as(wired.machine);
  for (const auto& variable : logged(logs)) more.push_back(variable);
  more.insert(more.end(), {{"NCCL_ALGO", "ring"},
                           {"RONDO_GPU_RELAY", "1"},
                           {"NCCL_MIN_CTAS", "4"},
                           {"NCCL_BUFFSIZE", "4096"}});
  return more;
}

TEST_P(ChannelFaults, DeathsAreReportedByName) {
  const int ranks = GetParam().layout.ranks();
  for (const int victim : {0, 1, ranks - 1}) {
    const RankLogs logs;
    RankProcesses processes(GetParam().layout.under(faults_of(GetParam(), logs)),
                            [](NcclRank& seat) { sum_until_error(seat, 20'000); });
    ASSERT_TRUE(processes.wait_stage(1));
    processes.send(victim, SIGKILL);
    ASSERT_TRUE(processes.wait_reports({victim}));  // usually soon; the rest is for a busy
                                                    // machine
    expect_reports(processes, ranks, StatusCode::kRemoteError, "rank " + std::to_string(victim),
                   victim);
    processes.wait_exits({victim});
    EXPECT_EQ(lines_with(logs, " by the topology, ").size(), 1u);
  }
}

// The sleeper is stopped while another rank dies and all others end because of that.
TEST_P(ChannelFaults, ADeathIsNamedByARankThatSleptUntilAllOthersHadEnded) {
  const RankLogs logs;
  const int victim = 1, sleeper = 3;
  RankProcesses processes(GetParam().layout.under(faults_of(GetParam(), logs)),
                          [](NcclRank& seat) { sum_until_error(seat, 20'000); });
  ASSERT_TRUE(processes.wait_stage(1));
  processes.send(sleeper, SIGSTOP);
  processes.send(victim, SIGKILL);
  ASSERT_TRUE(processes.wait_reports({victim, sleeper}));
  processes.wait_exits({victim, sleeper});
  processes.send(sleeper, SIGCONT);
  ASSERT_TRUE(processes.wait_reports({victim}));
  expect_reports(processes, GetParam().layout.ranks(), StatusCode::kRemoteError, "rank 1", victim);
  processes.wait_exits({victim});
}

// A DGX A100 where the GPU of one rank has lost 3 of its 12 NVLinks.
TEST(SlowLinks, AreReportedOnceWithTheRank) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs are where they are";
#endif
  const RankLogs logs;
  std::ifstream in(fixture_file("dgx-a100"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string whole = "count=\"12\"";
  text.replace(text.find(whole, text.find("<gpu dev=\"2\"")), whole.size(), "count=\"9\"");
  const std::string file = logs.file(0) + ".xml";
  std::ofstream(file) << text;
  Environment more = wired_by(file);
  for (const auto& variable : logged(logs)) more.push_back(variable);
  run_job(Layout{{{0}, {1}, {2}}}.under(more), [](NcclRank& seat) {
    run_case(seat, {Collective::kAllReduce, DataType::kInt32, RedOp::kSum, seat.size, 0, 100, 5},
             {});
  });
  const std::vector<std::string> output = lines_with(logs, "NCCL WARN");
  ASSERT_EQ(output.size(), 1u);
  EXPECT_NE(output[0].find(" (GPU 0000:47:00.0 of "), std::string::npos) << output[0];
  EXPECT_NE(output[0].find("(9 of them) where most have"), std::string::npos) << output[0];
}

// Bytes that each rank's kernels sent to other hosts.
std::map<int, std::uint64_t> sent_by_kernels(const RankLogs& logs) {
  std::map<int, std::uint64_t> sent;
  for (const std::string& line : lines_with(logs, "rank ")) {
    int rank = -1;
    unsigned long long bytes = 0;
    if (std::sscanf(line.c_str(), "rank %d sent %llu bytes of its kernels", &rank, &bytes) == 2)
      sent[rank] = bytes;
  }
  return sent;
}

// Kernels send to the other host through the last rank of the ring's path over a host.
TEST(ChannelsOfHosts, LeaveByTheRanksOfTheirRings) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs are where they are";
#endif
  const RankLogs logs;
  Environment more = wired_as("../gpu/two-hosts");
  for (const auto& variable : logged(logs)) more.push_back(variable);
  more.insert(more.end(), {{"NCCL_ALGO", "ring"},
                           {"RONDO_GPU_RELAY", "1"},
                           {"NCCL_MAX_CTAS", "1"},
                           {"NCCL_BUFFSIZE", "16384"}});
  run_job(kTwoHosts.under(more), [](NcclRank& seat) {
    run_case(seat,
             {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 65536, 5}, {});
  });
  std::vector<int> ring(8);
  std::iota(ring.begin(), ring.end(), 0);
  for (std::string line : lines_with(logs, "channel 0: ranks ")) {
    std::replace(line.begin(), line.end(), '>', ' ');
    std::istringstream words(line.substr(std::string("channel 0: ranks ").size()));
    for (int& rank : ring) words >> rank;
  }
  const auto sent = sent_by_kernels(logs);
  ASSERT_EQ(sent.size(), 8u);
  constexpr std::uint64_t kBytes = 65536 * sizeof(float) * 2 * 7 / 8;
  for (const auto& [rank, bytes] : sent)
    EXPECT_EQ(bytes, rank == ring[3] || rank == ring[7] ? kBytes : 0) << "rank " << rank;
}

// Two hosts with four GPUs and a port beside each: four channels leave each host through four
// ranks.
TEST(ChannelsOfHosts, LeaveByAllPortsAQuarterEach) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs are where they are";
#endif
  const RankLogs logs;
  const TemporaryFolder root;
  pretend_four_ports(root, "200 Gb/sec (4X HDR)");
  Environment more = wired_as("../gpu/two-hosts");
  for (const auto& variable : logged(logs)) more.push_back(variable);
  more.insert(more.end(), {{"RONDO_SYS_ROOT", root.path()},
                           {"NCCL_ALGO", "ring"},
                           {"RONDO_GPU_RELAY", "1"},
                           {"NCCL_MIN_CTAS", "4"},
                           {"NCCL_MAX_CTAS", "4"},
                           {"NCCL_BUFFSIZE", "16384"}});
  constexpr std::size_t kElements = 65536;
  run_job(kTwoHosts.under(more), [](NcclRank& seat) {
    run_case(seat,
             {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, kElements, 5},
             {});
  });
  const std::vector<std::string> output = lines_with(logs, "channels: ");
  ASSERT_EQ(output.size(), 1u);
  EXPECT_TRUE(output[0].starts_with("channels: 4 rings by the topology, 100 GB/s")) << output[0];
  const auto sent = sent_by_kernels(logs);
  ASSERT_EQ(sent.size(), 8u);
  constexpr std::uint64_t kQuarter = kElements * sizeof(float) * 2 * 7 / 8 / 4;
  for (const auto& [rank, bytes] : sent) EXPECT_EQ(bytes, kQuarter) << "rank " << rank;
}

// rondoCommNetworkRate: the rate of the host's network that a program gets.
TEST(RatesOfHosts, AreThoseOfTheirPorts) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs are where they are";
#endif
  const TemporaryFolder root;
  pretend_four_ports(root, "200 Gb/sec (4X HDR)");
  Environment more = wired_as("../gpu/two-hosts");
  more.emplace_back("RONDO_SYS_ROOT", root.path());
  const auto expect_rate = [&](const Layout& layout, double bytes_per_second) {
    run_job(layout.under(more), [bytes_per_second](NcclRank& seat) {
      double rate = -1;
      NCCL_OK(rondoCommNetworkRate(seat.comm, &rate));
      EXPECT_DOUBLE_EQ(rate, bytes_per_second);
      EXPECT_EQ(rondoCommNetworkRate(seat.comm, nullptr), ncclInvalidArgument);
      EXPECT_EQ(rondoCommNetworkRate(nullptr, &rate), ncclInvalidArgument);
    });
  };
  expect_rate(kTwoHosts, 4 * 25e9 * 0.96);
  // Ranks that share GPUs, for which no rings are searched.
  expect_rate({{{0, 0}, {1}}, {"a", "b"}}, 4 * 25e9 * 0.96);
  expect_rate({{{0, 2}, {4}}}, 0);  // one host
}

}  // namespace
}  // namespace rondo::test
