// SPDX-License-Identifier: Apache-2.0
// Emulated GPUs placed as in a topology file: NCCL_P2P_LEVEL allows P2P by their paths, and pairs
// without P2P use staging.
#include <algorithm>
#include <set>

#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/fixture_file.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

Environment pretending(const char* name, const char* level) {
  return {{"RONDO_SIMT", "topology=" + fixture_file(name)},
          {"NCCL_TOPO_FILE", fixture_file(name)},
          {"NCCL_P2P_LEVEL", level}};
}

// True if the library has enabled access of `device` to `peer`'s memory, as the devices report it.
bool is_open(int device, int peer) {
  EXPECT_EQ(gpu_api()->set_device(device), kGpuSuccess);
  const GpuError error = gpu_api()->enable_peer_access(peer);
  return error == kGpuPeerAlreadyEnabled;
}

struct Row {
  const char* machine;
  const char* level;
  int ranks;
  std::set<std::pair<int, int>> open;  // pairs, the lower number first
};

class GraphPaths : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
#ifndef RONDO_SIMT
    GTEST_SKIP() << "real GPUs are where they are";
#endif
  }
};

TEST_P(GraphPaths, DecideWhoseMemoryIsUsed) {
  const Row& row = GetParam();
  Layout layout{{{}}};
  for (int r = 0; r < row.ranks; ++r) layout.processes[0].push_back(r);
  const auto body = [&row](NcclRank& seat) {
    run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 3001, 5},
             {});
    ASSERT_TRUE(seat.board.meet());
    if (seat.rank != 0) return;
    for (int a = 0; a < row.ranks; ++a)
      for (int b = a + 1; b < row.ranks; ++b) {
        EXPECT_EQ(is_open(a, b), row.open.contains({a, b})) << a << " " << b;
        EXPECT_EQ(is_open(b, a), row.open.contains({a, b})) << b << " " << a;
      }
    GPU_OK(gpu_api()->set_device(0));
  };
  run_job(layout.under(pretending(row.machine, row.level)), body);
}

// Also between processes: two on each of two sockets.
TEST_P(GraphPaths, JoinProcesses) {
  const Row& row = GetParam();
  if (row.ranks < 4) GTEST_SKIP() << "too few";
  run_job(Layout{{{0, 1}, {2}, {3}}}.under(pretending(row.machine, row.level)), [](NcclRank& seat) {
    run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 3001, 5},
             {});
    pass_round_a_ring(seat, {1, 5000});
  });
}

const Row kRows[] = {
    {"pcie-4-switches", "LOC", 4, {}},
    {"pcie-4-switches", "NVL", 4, {{0, 1}, {2, 3}}},
    {"pcie-4-switches", "PXB", 4, {{0, 1}, {2, 3}}},
    {"pcie-4-switches", "PHB", 4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}},
    {"pcie-8-two-sockets", "2", 5, {{0, 1}, {2, 3}}},
    {"pcie-8-two-sockets", "PHB", 5, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}},
    {"dgx-a100", "NVL", 3, {{0, 1}, {0, 2}, {1, 2}}},
};
INSTANTIATE_TEST_SUITE_P(Rows, GraphPaths, testing::ValuesIn(kRows), [](const auto& info) {
  std::string name = std::string(info.param.machine) + "_" + info.param.level;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Unknown GPUs count as the farthest, and a damaged file does not prevent the start.
TEST(GraphPathsUnknown, LeaveNoP2PBelowSys) {
#ifndef RONDO_SIMT
  GTEST_SKIP() << "real GPUs are where they are";
#endif
  const TemporaryFolder folder;
  const std::string broken = folder.file("broken.xml", "<system>\n<cpu numaid=");
  const RankLogs logs;
  const auto body = [&](NcclRank& seat) {
    run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 2, 0, 3001, 5}, {});
    std::string last;
    ASSERT_TRUE(seat.board.meet());
    if (seat.rank != 0) return;
    EXPECT_FALSE(is_open(0, 1));
    EXPECT_FALSE(is_open(1, 0));
    EXPECT_EQ(logs.count(0, "NCCL WARN " + broken + ", line 2: ", &last), 1);
    EXPECT_EQ(logs.count(0, "NVLinks are unknown", &last), 1);
    EXPECT_EQ(logs.count(0, "topology of this host: ", &last), 1);
    EXPECT_NE(last.find("2 GPUs (CUDA)"), std::string::npos) << last;
    GPU_OK(gpu_api()->set_device(0));
  };
  run_job(Layout{{{0, 1}}}.under({{"NCCL_TOPO_FILE", broken},
                                  {"NCCL_P2P_LEVEL", "PXB"},
                                  {"NCCL_DEBUG", "INFO"},
                                  {"NCCL_DEBUG_FILE", logs.file(0)}}),
          body);
}

}  // namespace
}  // namespace rondo::test
