// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: captured calls, replayed many times, mixed with plain ones; calls on several
// streams.
#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr int kGraphRanks = 3;
constexpr std::size_t kGraphCount = 500;

// x += the sum of all ranks' x in place: after k calls every element is its sum times n^(k-1).
class Graphs : public testing::Test {
 protected:
  Graphs() : ranks(kGraphRanks) {
    for (int r = 0; r < kGraphRanks; ++r)
      buffers.emplace_back(kGraphCount * sizeof(std::int64_t), 0);
    GPU_OK_IN_CONSTRUCTOR(gpu_api()->create_event(&fork, kEventPlain));
    for (GpuEvent& event : joins)
      GPU_OK_IN_CONSTRUCTOR(gpu_api()->create_event(&event, kEventPlain));
  }
  ~Graphs() override {
    gpu_api()->destroy_event(fork);
    for (GpuEvent event : joins) gpu_api()->destroy_event(event);
  }
  static void GPU_OK_IN_CONSTRUCTOR(GpuError error) { EXPECT_EQ(error, kGpuSuccess); }

  void fill() {
    for (int r = 0; r < kGraphRanks; ++r) {
      Bytes content(kGraphCount * sizeof(std::int64_t));
      for (std::size_t i = 0; i < kGraphCount; ++i) {
        const std::int64_t value = static_cast<std::int64_t>(i) + r;
        std::memcpy(&content[i * sizeof(value)], &value, sizeof(value));
      }
      buffers[r].put(content, 0, ranks[r].stream);
    }
  }
  void all_reduce() {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kGraphRanks; ++r)
      NCCL_OK(ncclAllReduce(buffers[r].data(), buffers[r].data(), kGraphCount, ncclInt64, ncclSum,
                            ranks[r].comm, ranks[r].stream));
    NCCL_OK(ncclGroupEnd());
  }
  // Captures `calls` all-reduces of all ranks, forked off stream 0.
  void capture(int calls, void** graph) {
    GPU_OK(gpu_api()->begin_capture(ranks[0].stream, GpuCaptureMode::kThreadLocal));
    GPU_OK(gpu_api()->record_event(fork, ranks[0].stream, GpuEventUse::kPlain));
    for (int r = 1; r < kGraphRanks; ++r)
      GPU_OK(gpu_api()->stream_wait_event(ranks[r].stream, fork, GpuEventUse::kPlain));
    for (int i = 0; i < calls; ++i) all_reduce();
    for (int r = 1; r < kGraphRanks; ++r) {
      GPU_OK(gpu_api()->record_event(joins[r], ranks[r].stream, GpuEventUse::kPlain));
      GPU_OK(gpu_api()->stream_wait_event(ranks[0].stream, joins[r], GpuEventUse::kPlain));
    }
    GPU_OK(gpu_api()->end_capture(ranks[0].stream, graph));
  }
  void check(int calls) {
    ranks.synchronize();
    std::int64_t factor = 1;
    for (int i = 1; i < calls; ++i) factor *= kGraphRanks;
    for (int r = 0; r < kGraphRanks; ++r) {
      buffers[r].get(ranks[r].stream);
      for (std::size_t i = 0; i < kGraphCount; ++i) {
        std::int64_t got = 0;
        std::memcpy(&got, buffers[r].host() + i * sizeof(got), sizeof(got));
        const std::int64_t sum =
            static_cast<std::int64_t>(kGraphRanks * i) + kGraphRanks * (kGraphRanks - 1) / 2;
        ASSERT_EQ(got, sum * factor) << "rank " << r << " element " << i;
      }
    }
  }

  DeviceRanks ranks;
  std::vector<DeviceBuffer> buffers;
  GpuEvent fork = nullptr;
  GpuEvent joins[kGraphRanks] = {};
};

TEST_F(Graphs, ReplayWhatWasCaptured) {
  void* graph = nullptr;
  capture(2, &graph);
  fill();
  for (int i = 0; i < 5; ++i) GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
  check(10);
  GPU_OK(gpu_api()->destroy_graph(graph));
}

TEST_F(Graphs, MixWithPlainCallsInOrder) {
  void* graph = nullptr;
  capture(1, &graph);
  fill();
  for (int i = 0; i < 3; ++i) {
    all_reduce();
    // The program has to order its own streams; the communicator's order is not enough for data.
    ranks.synchronize();
    GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
    ranks.synchronize();
  }
  check(6);
  GPU_OK(gpu_api()->destroy_graph(graph));
}

TEST_F(Graphs, OfOneCommunicatorRunOnTwoStreams) {
  void *first = nullptr, *second = nullptr;
  capture(1, &first);
  capture(2, &second);
  fill();
  for (int i = 0; i < 2; ++i) {
    GPU_OK(gpu_api()->launch_graph(first, ranks[0].stream));
    GPU_OK(gpu_api()->synchronize_stream(ranks[0].stream));
    GPU_OK(gpu_api()->launch_graph(second, ranks[1].stream));
    GPU_OK(gpu_api()->synchronize_stream(ranks[1].stream));
  }
  check(6);
  GPU_OK(gpu_api()->destroy_graph(first));
  GPU_OK(gpu_api()->destroy_graph(second));
}

TEST_F(Graphs, HoldCallsOfOneRankOnSeveralStreams) {
  fill();
  // Plain calls that change streams: each must wait for the previous one.
  for (int call = 0; call < 6; ++call) {
    for (int r = 0; r + 1 < ranks.size(); ++r) std::swap(ranks[r].stream, ranks[r + 1].stream);
    all_reduce();
  }
  check(6);
}

// A group of calls of several kinds, which need few launches; on one GPU, or on one each.
void replay_a_group(const std::vector<int>& devices) {
  DeviceRanks ranks(devices);
  constexpr std::size_t kCounts[] = {1, 500, 37, 3001, 64, 0, 900};
  std::vector<DeviceCase> cases;
  for (const auto& [which, op] : {std::pair{Collective::kAllReduce, RedOp::kSum},
                                  {Collective::kReduceScatter, RedOp::kSum},
                                  {Collective::kAllGather, RedOp::kSum},
                                  {Collective::kReduce, RedOp::kMax},
                                  {Collective::kAllReduce, RedOp::kPreMulSum}})
    for (const std::size_t count : kCounts) {
      Case c{which, DataType::kFloat32, op, ranks.size(), static_cast<int>(count % 3), count, 7};
      c.seed += static_cast<unsigned>(cases.size());
      cases.emplace_back(ranks, c, which == Collective::kAllReduce && count % 2 == 0, 0);
    }
  GpuEvent begin = nullptr;
  void* graph = nullptr;
  ranks.use_device_of(0);
  GPU_OK(gpu_api()->create_event(&begin, kEventPlain));
  GPU_OK(gpu_api()->begin_capture(ranks[0].stream, GpuCaptureMode::kThreadLocal));
  GPU_OK(gpu_api()->record_event(begin, ranks[0].stream, GpuEventUse::kPlain));
  for (int r = 1; r < ranks.size(); ++r)
    GPU_OK(gpu_api()->stream_wait_event(ranks[r].stream, begin, GpuEventUse::kPlain));
  NCCL_OK(ncclGroupStart());
  for (DeviceCase& each : cases)
    for (int r = 0; r < ranks.size(); ++r) {
      ranks.use_device_of(r);
      NCCL_OK(each.call(r));
    }
  NCCL_OK(ncclGroupEnd());
  for (int r = 1; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    GpuEvent over = nullptr;
    GPU_OK(gpu_api()->create_event(&over, kEventPlain));
    GPU_OK(gpu_api()->record_event(over, ranks[r].stream, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->stream_wait_event(ranks[0].stream, over, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->destroy_event(over));
  }
  ranks.use_device_of(0);
  GPU_OK(gpu_api()->end_capture(ranks[0].stream, &graph));
  for (int replay = 0; replay < 3; ++replay) {
    for (DeviceCase& each : cases) each.fill_inputs();
    ranks.use_device_of(0);
    GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
    ranks.synchronize();
    for (DeviceCase& each : cases) each.check();
    if (testing::Test::HasFailure()) break;
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
  GPU_OK(gpu_api()->destroy_event(begin));
}

TEST(GraphsOfGroups, EqualTheReferenceOnOneGpu) { replay_a_group({0, 0, 0}); }
TEST(GraphsOfGroups, EqualTheReferenceOnAGpuEach) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  replay_a_group({0, 1, 2});
}

}  // namespace
}  // namespace rondo::test
