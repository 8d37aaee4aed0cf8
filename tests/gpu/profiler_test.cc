// SPDX-License-Identifier: Apache-2.0
// A profiler plugin gets the events of calls of GPUs: how each runs, its stream, and whether a
// graph captures it.
#include <unistd.h>

#include "tests/gpu/device_case.h"
#include "tests/support/environment.h"
#include "tests/support/profiler/profilers.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

constexpr long kColl = 2, kP2p = 4, kCollApi = 512;

class ProfiledGpus : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ASSERT_EQ(gpu_api()->device_count(&count), kGpuSuccess);
    if (count < 2) GTEST_SKIP() << "too few GPUs";
  }
  std::vector<ProfilerLine> starts(int rank, long kind) const {
    std::vector<ProfilerLine> found;
    for (const ProfilerLine& line : profiler_lines(folder_.path(), ::getpid(), rank))
      if (line.what == "start" && line.number("kind") == kind) found.push_back(line);
    return found;
  }
  std::vector<std::string> wrong_lines() const {
    std::vector<std::string> wrong;
    for (const ProfilerLine& line : profiler_lines(folder_.path(), ::getpid()))
      if (line.what == "wrong") wrong.push_back(line.text);
    return wrong;
  }

  const TemporaryFolder folder_;
  const WithEnvironment plugin_{"NCCL_PROFILER_PLUGIN", profiler_file()};
  const WithEnvironment lines_{"RONDO_TEST_PROFILER_FOLDER", folder_.path()};
};

TEST_F(ProfiledGpus, ReportHowEachCallRuns) {
  std::vector<GpuStream> streams;
  {
    DeviceRanks ranks({0, 1});
    streams = ranks.streams();
    run_grouped(ranks, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 2, 0, 1000, 7},
                false, 0);
    run_grouped(ranks, {Collective::kBroadcast, DataType::kInt32, RedOp::kSum, 2, 1, 70'000, 7},
                false, 0);
    ranks.synchronize();
  }
  for (int r = 0; r < 2; ++r) {
    const auto colls = starts(r, kColl), apis = starts(r, kCollApi);
    ASSERT_EQ(colls.size(), 2u) << r;
    ASSERT_EQ(apis.size(), 2u) << r;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(colls[i].of("func"), i == 0 ? "AllReduce" : "Broadcast");
      EXPECT_EQ(colls[i].of("type"), i == 0 ? "ncclFloat32" : "ncclInt32");
      EXPECT_EQ(colls[i].number("count"), i == 0 ? 1000 : 70'000);
      EXPECT_EQ(colls[i].number("parent"), apis[i].number("id"));
      EXPECT_NE(colls[i].of("algo"), "Unknown");
      EXPECT_NE(colls[i].of("proto"), "Unknown");
      EXPECT_GE(colls[i].number("channels"), 1);
      EXPECT_EQ(std::strtoull(apis[i].of("stream").c_str(), nullptr, 16),
                reinterpret_cast<std::uintptr_t>(streams[static_cast<std::size_t>(r)]));
      EXPECT_EQ(apis[i].number("captured"), 0);
    }
  }
  EXPECT_TRUE(wrong_lines().empty()) << wrong_lines().front();
}

TEST_F(ProfiledGpus, ReportWhichCallsAGraphCaptures) {
  {
    DeviceRanks ranks(1);
    const DeviceBuffer buffer(64, 0);
    void* const memory = buffer.data();
    GPU_OK(gpu_api()->begin_capture(ranks[0].stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(memory, 4, ncclFloat32, 0, ranks[0].comm, ranks[0].stream));
    NCCL_OK(ncclRecv(memory, 4, ncclFloat32, 0, ranks[0].comm, ranks[0].stream));
    NCCL_OK(ncclGroupEnd());
    void* graph = nullptr;
    GPU_OK(gpu_api()->end_capture(ranks[0].stream, &graph));
    GPU_OK(gpu_api()->destroy_graph(graph));
  }
  const auto messages = starts(0, kP2p), apis = starts(0, 1024);
  ASSERT_EQ(messages.size(), 2u);
  ASSERT_EQ(apis.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(apis[i].number("captured"), 1);
    EXPECT_EQ(messages[i].of("func"), i == 0 ? "Send" : "Recv");
    EXPECT_EQ(messages[i].number("peer"), 0);
    EXPECT_EQ(messages[i].number("count"), 4);
  }
  EXPECT_TRUE(wrong_lines().empty());
}

}  // namespace
}  // namespace rondo::test
