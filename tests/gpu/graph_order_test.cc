// SPDX-License-Identifier: Apache-2.0
// Order of calls where graphs and plain calls of one communicator run on streams that nothing else
// orders: the call that was made, or launched, first runs first.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/gpu/device_case.h"
#include "transport/cuda/device.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCount = 300;
constexpr int kRounds = 5;

using Streams = std::vector<GpuStream>;  // by rank

// raise() multiplies every rank's x by the number of ranks, look() copies x to y. Another order
// gives another y; only the communicator keeps the order.
class GraphOrder : public testing::TestWithParam<int> {
 protected:
  GraphOrder() : ranks(places()) {
    for (int r = 0; r < kRanks; ++r) {
      ranks.use_device_of(r);
      x.emplace_back(kCount * sizeof(std::int64_t), 0);
      y.emplace_back(kCount * sizeof(std::int64_t), 0);
      Bytes content(kCount * sizeof(std::int64_t));
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto value = static_cast<std::int64_t>(i) + 1;
        std::memcpy(&content[i * sizeof(value)], &value, sizeof(value));
      }
      x[r].put(content, 0, ranks[r].stream);
    }
    EXPECT_EQ(gpu_api()->set_device(0), kGpuSuccess);
  }
  ~GraphOrder() override {
    for (GpuStream stream : made_streams) gpu_api()->destroy_stream(stream);
    for (GpuEvent event : made_events) gpu_api()->destroy_event(event);
  }

  // All devices, but at most the test's number.
  static std::vector<int> places() {
    int there = 0;
    EXPECT_EQ(gpu_api()->device_count(&there), kGpuSuccess);
    std::vector<int> devices;
    for (int r = 0; r < kRanks; ++r) devices.push_back(r % std::min(GetParam(), there));
    return devices;
  }
  Streams more_streams() {
    Streams streams(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      ranks.use_device_of(r);
      EXPECT_EQ(gpu_api()->create_stream(&streams[r], 0), kGpuSuccess);
      made_streams.push_back(streams[r]);
    }
    EXPECT_EQ(gpu_api()->set_device(0), kGpuSuccess);
    return streams;
  }
  GpuEvent event_of(int rank) {
    GpuEvent made = nullptr;
    ranks.use_device_of(rank);
    EXPECT_EQ(gpu_api()->create_event(&made, kEventPlain), kGpuSuccess);
    EXPECT_EQ(gpu_api()->set_device(0), kGpuSuccess);
    made_events.push_back(made);
    return made;
  }

  void raise(const Streams& on) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclAllReduce(x[r].data(), x[r].data(), kCount, ncclInt64, ncclSum, ranks[r].comm,
                            on[r]));
    NCCL_OK(ncclGroupEnd());
  }
  void look(const Streams& on) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclAllReduce(x[r].data(), y[r].data(), kCount, ncclInt64, ncclMax, ranks[r].comm,
                            on[r]));
    NCCL_OK(ncclGroupEnd());
  }

  // Captures what `calls` enqueue on streams that are forked off the first one at the beginning.
  template <class Calls>
  void capture(const std::vector<Streams>& on, const Calls& calls, void** graph) {
    const GpuStream origin = on[0][0];
    const GpuEvent fork = event_of(0);
    const auto others = [&](const auto& visit) {
      for (const Streams& streams : on)
        for (int r = 0; r < kRanks; ++r)
          if (streams[r] != origin) visit(streams[r], r);
    };
    GPU_OK(gpu_api()->begin_capture(origin, GpuCaptureMode::kRelaxed));
    GPU_OK(gpu_api()->record_event(fork, origin, GpuEventUse::kPlain));
    others([&](GpuStream stream, int) {
      GPU_OK(gpu_api()->stream_wait_event(stream, fork, GpuEventUse::kPlain));
    });
    calls();
    others([&](GpuStream stream, int rank) {
      const GpuEvent joined = event_of(rank);
      GPU_OK(gpu_api()->record_event(joined, stream, GpuEventUse::kPlain));
      GPU_OK(gpu_api()->stream_wait_event(origin, joined, GpuEventUse::kPlain));
    });
    GPU_OK(gpu_api()->end_capture(origin, graph));
  }
  static void wait_a_little(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
  // Delays the stream's next work, so that work that does not wait for it overtakes it.
  static void hold_up(GpuStream stream) {
    GPU_OK(gpu_api()->launch_host(stream, wait_a_little, nullptr));
  }
  void synchronize(const Streams& streams) {
    for (GpuStream stream : streams) GPU_OK(gpu_api()->synchronize_stream(stream));
  }
  // Checks y for the case that x was raised `times` times.
  void check(int times) {
    std::int64_t factor = 1;
    for (int i = 0; i < times; ++i) factor *= kRanks;
    for (int r = 0; r < kRanks; ++r) {
      y[r].get(ranks[r].stream);
      for (std::size_t i = 0; i < kCount; ++i) {
        std::int64_t got = 0;
        std::memcpy(&got, y[r].host() + i * sizeof(got), sizeof(got));
        ASSERT_EQ(got, static_cast<std::int64_t>(i + 1) * factor)
            << "rank " << r << " element " << i << " after " << times << " times";
      }
    }
  }

  // Calls in a wrong order may also wait for each other: then they end with an error soon.
  const WithEnvironment timeout{"RONDO_TIMEOUT", "120"};
  DeviceRanks ranks;
  std::vector<DeviceBuffer> x, y;
  std::vector<GpuStream> made_streams;
  std::vector<GpuEvent> made_events;
};
INSTANTIATE_TEST_SUITE_P(Devices, GraphOrder, testing::Values(1, kRanks));

// The plain calls always use the same streams, so that no stream change makes them wait.
TEST_P(GraphOrder, PlainCallsComeAfterAGraphThatWasLaunchedBefore) {
  const Streams plain = more_streams();
  look(plain);
  void* graph = nullptr;
  capture(
      {ranks.streams()}, [&] { raise(ranks.streams()); }, &graph);
  for (int round = 1; round <= kRounds; ++round) {
    const Streams apart = more_streams();
    hold_up(apart[0]);
    GPU_OK(gpu_api()->launch_graph(graph, apart[0]));
    look(plain);
    synchronize(plain);
    check(round);
    synchronize(apart);
    if (HasFatalFailure()) break;
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
}

TEST_P(GraphOrder, GraphsComeAfterPlainCallsThatWereMadeBefore) {
  void* graph = nullptr;
  capture(
      {ranks.streams()}, [&] { look(ranks.streams()); }, &graph);
  for (int round = 1; round <= kRounds; ++round) {
    const Streams plain = more_streams(), apart = more_streams();
    hold_up(plain[round % kRanks]);
    raise(plain);
    GPU_OK(gpu_api()->launch_graph(graph, apart[0]));
    synchronize(apart);
    check(round);
    synchronize(plain);
    if (HasFatalFailure()) break;
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
}

TEST_P(GraphOrder, GraphsComeAfterGraphsThatWereLaunchedBefore) {
  void *raising = nullptr, *looking = nullptr;
  capture(
      {ranks.streams()}, [&] { raise(ranks.streams()); }, &raising);
  capture(
      {ranks.streams()}, [&] { look(ranks.streams()); }, &looking);
  for (int round = 1; round <= kRounds; ++round) {
    const Streams some = more_streams(), others = more_streams();
    hold_up(some[0]);
    GPU_OK(gpu_api()->launch_graph(raising, some[0]));
    GPU_OK(gpu_api()->launch_graph(looking, others[0]));
    synchronize(others);
    check(round);
    synchronize(some);
    if (HasFatalFailure()) break;
  }
  GPU_OK(gpu_api()->destroy_graph(raising));
  GPU_OK(gpu_api()->destroy_graph(looking));
}

// One capture whose calls alternate between two sets of streams, forked before any of them.
TEST_P(GraphOrder, ACallThatOnlyOneRankOfAGpuCapturesIsRefused) {
  if (places() == std::vector<int>{0, 1, 2}) GTEST_SKIP() << "ranks with a GPU each make it alone";
  const Streams streams = ranks.streams();
  GPU_OK(gpu_api()->begin_capture(streams[0], GpuCaptureMode::kRelaxed));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    NCCL_OK(ncclAllReduce(x[r].data(), y[r].data(), kCount, ncclInt64, ncclSum, ranks[r].comm,
                          streams[r]));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("from different graphs"), std::string::npos) << text;
  void* graph = nullptr;
  GPU_OK(gpu_api()->end_capture(streams[0], &graph));
  GPU_OK(gpu_api()->destroy_graph(graph));
}

// Captured as by nccl-tests' -G with several GPUs per process, and by JAX: each GPU's stream alone.
// One kernel does the call of ranks that share a GPU, which needs one graph.
TEST_P(GraphOrder, EachDeviceMayHaveAGraphOfItsOwn) {
  const bool apart = places() == std::vector<int>{0, 1, 2};
  const Streams streams = ranks.streams(), plain = more_streams();
  for (GpuStream stream : streams)
    GPU_OK(gpu_api()->begin_capture(stream, GpuCaptureMode::kRelaxed));
  const auto sum = [&](std::vector<DeviceBuffer>& to, ncclRedOp_t op) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclAllReduce(x[r].data(), to[r].data(), kCount, ncclInt64, op, ranks[r].comm,
                            streams[r]));
    EXPECT_EQ(ncclGroupEnd(), apart ? ncclSuccess : ncclInvalidUsage);
  };
  sum(x, ncclSum);
  if (apart) sum(y, ncclMax);
  std::vector<void*> graphs(kRanks);
  for (int r = 0; r < kRanks; ++r) GPU_OK(gpu_api()->end_capture(streams[r], &graphs[r]));
  int times = 0;
  for (int round = 0; apart && round < kRounds; ++round) {
    hold_up(streams[round % kRanks]);
    for (int i = 0; i < kRanks; ++i) {
      const int r = (i + round) % kRanks;
      GPU_OK(gpu_api()->launch_graph(graphs[r], streams[r]));
    }
    synchronize(streams);
    check(++times);
    raise(plain);  // between replays, on other streams
    ++times;
    if (HasFatalFailure()) break;
  }
  synchronize(plain);
  for (void* graph : graphs) GPU_OK(gpu_api()->destroy_graph(graph));
}

// One rank is a call ahead of another: its message to itself, after its own graph, must not run
// before the other's graph, for which its own graph waits.
TEST_P(GraphOrder, GraphsOfTheirOwnWaitForNoRankThatIsAhead) {
  if (places() != std::vector<int>{0, 1, 2}) GTEST_SKIP() << "needs a GPU a rank";
  if (gpu::blocking_launches()) GTEST_SKIP() << "one thread launches graphs that need each other";
  const Streams streams = ranks.streams();
  const auto keep = [&](int r) {  // y as it is
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(y[r].data(), kCount, ncclInt64, r, ranks[r].comm, streams[r]));
    NCCL_OK(ncclRecv(x[r].data(), kCount, ncclInt64, r, ranks[r].comm, streams[r]));
    NCCL_OK(ncclGroupEnd());
  };
  look(streams);
  for (GpuStream stream : streams)
    GPU_OK(gpu_api()->begin_capture(stream, GpuCaptureMode::kRelaxed));
  for (int r = 0; r < kRanks; ++r) {  // the graph has a message, too
    GPU_OK(gpu_api()->set_device(r));
    keep(r);
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    NCCL_OK(ncclAllReduce(x[r].data(), y[r].data(), kCount, ncclInt64, ncclSum, ranks[r].comm,
                          streams[r]));
  NCCL_OK(ncclGroupEnd());
  std::vector<void*> graphs(kRanks);
  for (int r = 0; r < kRanks; ++r) GPU_OK(gpu_api()->end_capture(streams[r], &graphs[r]));
  for (int round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < kRanks; ++i) {
      const int r = (i + round) % kRanks;
      GPU_OK(gpu_api()->set_device(r));
      GPU_OK(gpu_api()->launch_graph(graphs[r], streams[r]));
      keep(r);
    }
    GPU_OK(gpu_api()->set_device(0));
    synchronize(streams);
    check(round);
    if (HasFatalFailure()) break;
  }
  for (void* graph : graphs) GPU_OK(gpu_api()->destroy_graph(graph));
}

TEST_P(GraphOrder, ACaptureOverSeveralStreamsKeepsItsCallsInOrder) {
  const Streams first = more_streams(), second = more_streams();
  void* graph = nullptr;
  const auto calls = [&] {
    hold_up(first[0]);
    raise(first);
    look(second);
  };
  capture({ranks.streams(), first, second}, calls, &graph);
  for (int round = 1; round <= kRounds; ++round) {
    GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
    synchronize(ranks.streams());
    check(round);
    if (HasFatalFailure()) break;
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
}

}  // namespace
}  // namespace rondo::test
