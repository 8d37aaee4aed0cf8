// SPDX-License-Identifier: Apache-2.0
// CUDA graphs of ranks that are processes on one GPU: captured calls, replayed, mixed with plain
// ones.
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 3000;

// x += the sum of all ranks' x in place, so that every run of the call shows.
class Doubling {
 public:
  Doubling(NcclRank& seat, bool shareable)
      : seat_(seat), buffer_(kCount * sizeof(std::int64_t), 0, shareable) {
    Bytes content(kCount * sizeof(std::int64_t));
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::int64_t value = static_cast<std::int64_t>(i) + seat.rank;
      std::memcpy(&content[i * sizeof(value)], &value, sizeof(value));
    }
    buffer_.put(content, 0, seat.stream);
  }
  void call() {
    NCCL_OK(ncclAllReduce(buffer_.data(), buffer_.data(), kCount, ncclInt64, ncclSum, seat_.comm,
                          seat_.stream));
  }
  void* capture(int calls) {
    void* graph = nullptr;
    EXPECT_EQ(gpu_api()->begin_capture(seat_.stream, GpuCaptureMode::kThreadLocal), kGpuSuccess);
    for (int i = 0; i < calls; ++i) call();
    EXPECT_EQ(gpu_api()->end_capture(seat_.stream, &graph), kGpuSuccess);
    return graph;
  }
  void check(int calls) {
    const int n = seat_.size;
    std::int64_t factor = 1;
    for (int i = 1; i < calls; ++i) factor *= n;
    buffer_.get(seat_.stream);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int64_t got = 0;
      std::memcpy(&got, buffer_.host() + i * sizeof(got), sizeof(got));
      const auto sum = static_cast<std::int64_t>(n * i) + n * (n - 1) / 2;
      ASSERT_EQ(got, sum * factor) << "element " << i;
    }
  }

 private:
  NcclRank& seat_;
  DeviceBuffer buffer_;
};

struct GraphCase {
  const char* name;
  bool shareable;  // buffers
  Gpus gpus;
  const char* simt;
  const char* algorithm = "";
};

const GraphCase kGraphPlaces[] = {{"staged", false, Gpus::kOne, "p2p=all"},
                                  {"mapped", true, Gpus::kOne, "p2p=all"},
                                  {"spread", false, Gpus::kOneEach, "p2p=all"},
                                  {"spread_sharing", false, Gpus::kOneEach, "p2p=all", "twoshot"},
                                  {"spread_apart", false, Gpus::kOneEach, "p2p=none"},
                                  {"two_gpus", false, Gpus::kTwoInTurns, "p2p=all"}};

class ProcessGraphs : public testing::TestWithParam<GraphCase> {
 protected:
  // Staged calls of 3000 elements take several steps.
  static Environment environment() {
    return {{"RONDO_GPU_STAGING", "64K"},
            {"RONDO_SIMT", GetParam().simt},
            {"NCCL_ALGO", GetParam().algorithm}};
  }
  void SetUp() override {
    if (GetParam().gpus != Gpus::kOne && gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};

TEST_P(ProcessGraphs, ReplayAndMixWithPlainCalls) {
  const bool shareable = GetParam().shareable;
  run_job(as_processes(3, GetParam().gpus, environment()), [=](NcclRank& seat) {
    Doubling test(seat, shareable);
    void* const two = test.capture(2);
    for (int i = 0; i < 3; ++i) {
      GPU_OK(gpu_api()->launch_graph(two, seat.stream));
      test.call();
    }
    void* const one = test.capture(1);
    for (int i = 0; i < 4; ++i) GPU_OK(gpu_api()->launch_graph(one, seat.stream));
    test.check(13);
    GPU_OK(gpu_api()->destroy_graph(two));
    GPU_OK(gpu_api()->destroy_graph(one));
  });
}

INSTANTIATE_TEST_SUITE_P(Places, ProcessGraphs, testing::ValuesIn(kGraphPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ProcessGraphs, HoldMessages) {
  run_job(as_processes(2, GetParam().gpus, environment()), [](NcclRank& seat) {
    constexpr std::size_t kBytes = 50'000;  // four pieces
    DeviceBuffer in(kBytes, 0), out(kBytes, 0);
    in.put(Bytes(kBytes, static_cast<std::byte>(seat.rank + 5)), 0, seat.stream);
    const auto exchange = [&] {
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(in.data(), kBytes, ncclUint8, 1 - seat.rank, seat.comm, seat.stream));
      NCCL_OK(ncclRecv(out.data(), kBytes, ncclUint8, 1 - seat.rank, seat.comm, seat.stream));
      NCCL_OK(ncclGroupEnd());
    };
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    exchange();
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    const Bytes want(kBytes, static_cast<std::byte>(6 - seat.rank));
    for (int i = 0; i < 3; ++i) {
      out.put({}, 0, seat.stream);
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      out.get(seat.stream);
      ASSERT_EQ(std::memcmp(out.host(), want.data(), kBytes), 0) << "replay " << i;
      out.put({}, 0, seat.stream);
      exchange();
      out.get(seat.stream);
      ASSERT_EQ(std::memcmp(out.host(), want.data(), kBytes), 0) << "plain " << i;
    }
    GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

TEST_P(ProcessGraphs, ReplaySumsOfSeveralFactors) {
  run_job(as_processes(3, GetParam().gpus, environment()), replay_sums_of_several_factors);
}

// 64 hardware queues, so that streams hardly ever share one, and a timeout against hangs.
class ProcessGraphsOnTwoStreams : public ProcessGraphs {
 protected:
  static Environment environment() {
    return {{"RONDO_GPU_STAGING", "64K"},
            {"RONDO_SIMT", std::string(GetParam().simt) + ",queues=64"},
            {"RONDO_TIMEOUT", "120"},
            {"NCCL_ALGO", GetParam().algorithm}};
  }
};
TEST_P(ProcessGraphsOnTwoStreams, KeepTheOrderOfCalls) {
  run_job(as_processes(3, GetParam().gpus, environment()), replay_a_capture_of_two_streams);
}
TEST_P(ProcessGraphsOnTwoStreams, KeepTheOrderOfMessages) {
  run_job(as_processes(2, GetParam().gpus, environment()), replay_messages_of_two_streams);
}
INSTANTIATE_TEST_SUITE_P(Places, ProcessGraphsOnTwoStreams, testing::ValuesIn(kGraphPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
