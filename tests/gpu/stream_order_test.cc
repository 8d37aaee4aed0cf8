// What streams and graphs wait for, and what they do not: a launch runs after earlier work of its
// own ranks, but not after work that other ranks have launched since.
#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/gpu/order/rank_order.h"
#include "collectives/gpu/order/stream_order.h"
#include "tests/gpu/device_case.h"

namespace rondo::gpu {
namespace {

using namespace std::chrono_literals;

#define RONDO_OK(call)                                               \
  do {                                                               \
    const Status result_of_call = (call);                            \
    ASSERT_TRUE(result_of_call.ok()) << result_of_call.error().text; \
  } while (false)

// Later work on a stream begins only once it is open.
class Gate {
 public:
  ~Gate() { open(); }
  void open() { open_ = true; }
  void stand_in(GpuStream stream) { GPU_OK(gpu_api()->launch_host(stream, wait, this)); }

 private:
  static void wait(void* gate) {
    for (auto& open = static_cast<Gate*>(gate)->open_; !open;) std::this_thread::sleep_for(100us);
  }
  std::atomic<bool> open_{false};
};

class Orders : public testing::Test {
 protected:
  void SetUp() override {
    if (test::gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
    for (int device = 0; device < 2; ++device)
      for (int i = 0; i < 2; ++i) {
        GPU_OK(gpu_api()->set_device(device));
        GPU_OK(gpu_api()->create_stream(&streams[device][i], 0));
      }
    GPU_OK(gpu_api()->set_device(0));
  }
  void TearDown() override {
    gate.open();
    for (auto& of_device : streams)
      for (GpuStream stream : of_device) {
        if (stream == nullptr) continue;
        EXPECT_EQ(gpu_api()->synchronize_stream(stream), kGpuSuccess);
        EXPECT_EQ(gpu_api()->destroy_stream(stream), kGpuSuccess);
      }
    for (void* graph : graphs) EXPECT_EQ(gpu_api()->destroy_graph(graph), kGpuSuccess);
    EXPECT_EQ(gpu_api()->set_device(0), kGpuSuccess);
  }

  static GpuCaptureInfo capture_of(GpuStream stream) {
    GpuCaptureInfo info;
    EXPECT_EQ(gpu_api()->capture_info(stream, &info), kGpuSuccess);
    return info;
  }
  LaunchPosition site(int device, int stream, bool on_every_device) {
    const GpuStream on = streams[device][stream];
    return {device, on, capture_of(on), nullptr, on_every_device};
  }
  RankStreams::Use use(int device, int stream) {
    const GpuStream on = streams[device][stream];
    return {on, nullptr, capture_of(on)};
  }
  // Captures what `calls` put on the stream.
  template <class Calls>
  void* capture(GpuStream stream, const Calls& calls) {
    EXPECT_EQ(gpu_api()->begin_capture(stream, GpuCaptureMode::kRelaxed), kGpuSuccess);
    calls();
    void* graph = nullptr;
    EXPECT_EQ(gpu_api()->end_capture(stream, &graph), kGpuSuccess);
    if (graph != nullptr) graphs.push_back(graph);
    return graph;
  }
  // A part on each device; the gate, if used, is before device 1's part.
  void launch_on_each(StreamOrder& order) {
    for (int device = 0; device < 2; ++device) RONDO_OK(order.begin(site(device, 0, true)));
    for (int device = 0; device < 2; ++device) RONDO_OK(order.end(site(device, 0, true)));
    order.end_of_all(site(0, 0, true));
  }
  void launch_for_all(StreamOrder& order, int device) {
    RONDO_OK(order.begin(site(device, 0, false)));
    RONDO_OK(order.end(site(device, 0, false)));
  }
  static bool is_over(GpuStream stream) { return gpu_api()->query_stream(stream) == kGpuSuccess; }
  // True if the stream has not finished after some time.
  static bool is_held(GpuStream stream) {
    std::this_thread::sleep_for(20ms);
    return !is_over(stream);
  }
  // True if the stream finishes while the gate is shut.
  static bool passes(GpuStream stream) {
    for (int i = 0; i < 10'000 && !is_over(stream); ++i) std::this_thread::sleep_for(1ms);
    return is_over(stream);
  }

  GpuStream streams[2][2] = {};
  std::vector<void*> graphs;
  Gate gate;
};

constexpr std::uint64_t kFirst = 1, kBoth = 3;  // bit masks of places

TEST_F(Orders, AMessageComesAfterItsOwnDevicesPartAlone) {
  for (const std::uint64_t places : {kFirst, kBoth}) {
    StreamOrder order;
    RONDO_OK(order.open(std::vector<int>{0, 1}));
    Gate shut;
    shut.stand_in(streams[1][0]);
    launch_on_each(order);
    RONDO_OK(order.come_after(site(0, 1, false), places));
    if (places == kFirst)
      EXPECT_TRUE(passes(streams[0][1]));
    else
      EXPECT_TRUE(is_held(streams[0][1]));
    shut.open();
    for (const GpuStream stream : {streams[1][0], streams[0][1]})
      GPU_OK(gpu_api()->synchronize_stream(stream));
  }
}

TEST_F(Orders, AGraphWaitsForNothingThatAnotherRankHasLaunchedSince) {
  StreamOrder order;
  RONDO_OK(order.open(std::vector<int>{0, 1}));
  const auto come_after = [&](std::uint64_t places) {
    return capture(streams[0][1], [&] { RONDO_OK(order.come_after(site(0, 1, false), places)); });
  };
  void* const of_first = come_after(kFirst);
  void* const of_both = come_after(kBoth);
  gate.stand_in(streams[1][0]);
  launch_on_each(order);
  GPU_OK(gpu_api()->launch_graph(of_first, streams[0][1]));
  EXPECT_TRUE(passes(streams[0][1]));
  // Uncaptured work does not wait either.
  RONDO_OK(order.come_after(site(0, 1, false), kFirst));
  EXPECT_TRUE(passes(streams[0][1]));
  GPU_OK(gpu_api()->launch_graph(of_both, streams[0][1]));
  EXPECT_TRUE(is_held(streams[0][1]));
}

TEST_F(Orders, AGraphWaitsForWhatTouchedItsRanksBeforeAnyCapture) {
  StreamOrder order;
  RONDO_OK(order.open(std::vector<int>{0, 1}));
  gate.stand_in(streams[1][0]);
  launch_for_all(order, 1);
  void* const graph =
      capture(streams[0][1], [&] { RONDO_OK(order.come_after(site(0, 1, false), kFirst)); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[0][1]));
  EXPECT_TRUE(is_held(streams[0][1]));
  EXPECT_FALSE(order.is_over());
}

// No part of a graph waits for work on the order's own stream, which may share a hardware queue
// with a stream that waits for this graph.
TEST_F(Orders, AFirstCaptureRecordsNothingElsewhere) {
  StreamOrder order;
  RONDO_OK(order.open(std::vector<int>{0, 1}));
  gate.stand_in(order.own_stream(1));
  void* const graph =
      capture(streams[0][1], [&] { RONDO_OK(order.come_after(site(0, 1, false), kFirst)); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[0][1]));
  EXPECT_TRUE(passes(streams[0][1]));
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(order.own_stream(1)));
}

TEST_F(Orders, ARankFollowsNoLaunchOfAnotherGraph) {
  StreamOrder order;
  RONDO_OK(order.open(std::vector<int>{0, 1}));
  capture(streams[0][0], [&] {
    capture(streams[1][0], [&] { launch_for_all(order, 1); });
    RONDO_OK(order.follow(0, streams[0][0], capture_of(streams[0][0])));
  });
  EXPECT_EQ(graphs.size(), 2u);
}

TEST_F(Orders, ARankThatComesLateFollowsItsLaunchAndNoGraphSince) {
  StreamOrder order;
  RONDO_OK(order.open(std::vector<int>{0, 1}));
  void* const graph = capture(streams[1][0], [&] {
    RONDO_OK(order.begin(site(1, 0, true)));
    gate.stand_in(streams[1][0]);
    RONDO_OK(order.end(site(1, 0, true)));
  });
  launch_for_all(order, 1);
  GPU_OK(gpu_api()->launch_graph(graph, streams[1][0]));
  RONDO_OK(order.follow(0, streams[0][0], {}));
  EXPECT_TRUE(passes(streams[0][0]));
}

class RankOrders : public Orders {
 protected:
  void SetUp() override {
    Orders::SetUp();
    if (IsSkipped()) return;
    RONDO_OK(first.open(0, streams[0][0]));
    RONDO_OK(second.open(1, streams[1][0]));
  }
  // For both ranks, on the first one's stream.
  void launch() {
    RankOrder* const other[] = {&second};
    GPU_OK(gpu_api()->set_device(0));
    RONDO_OK(first.end_for(use(0, 0), other));
  }
  void join_second() {
    const RankStreams::Use uses[] = {use(1, 0)};
    RONDO_OK(second.join(uses));
  }
  RankOrder first, second;
};

TEST_F(RankOrders, ARankThatComesLateComesAfterItsMessagesAlone) {
  launch();
  gate.stand_in(streams[0][0]);
  RankOrder third;
  RONDO_OK(third.open(1, streams[1][1]));
  RankOrder* const other[] = {&third};
  RONDO_OK(first.end_for(use(0, 0), other));
  RONDO_OK(first.end(use(0, 0)));
  join_second();
  EXPECT_TRUE(passes(streams[1][0]));
  const RankStreams::Use uses[] = {use(1, 1)};
  RONDO_OK(third.join(uses));
  EXPECT_TRUE(is_held(streams[1][1]));
  EXPECT_FALSE(first.is_over());
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(streams[1][1]));
}

// Repeated, because streams may also be delayed by others in their hardware queue.
TEST_F(RankOrders, OtherStreamsAndGraphsComeAfterARanksMessages) {
  constexpr int kTimes = 10;
  for (int time = 0; time < 2 * kTimes; ++time) {
    const bool in_graph = time >= kTimes;
    const auto begin = [&] { RONDO_OK(second.begin(use(1, 1))); };
    void* const graph = in_graph ? capture(streams[1][1], begin) : nullptr;
    Gate shut;
    shut.stand_in(streams[0][0]);
    launch();
    join_second();
    if (in_graph) {
      GPU_OK(gpu_api()->launch_graph(graph, streams[1][1]));
    } else {
      begin();
    }
    EXPECT_TRUE(is_held(streams[1][1]));
    shut.open();
    for (GpuStream stream : {streams[0][0], streams[1][1]})
      GPU_OK(gpu_api()->synchronize_stream(stream));
  }
}

// Also for work launched before its first capture.
TEST_F(RankOrders, AFirstGraphComesAfterEarlierMessages) {
  gate.stand_in(streams[0][0]);
  launch();
  join_second();
  void* const graph = capture(streams[1][1], [&] { RONDO_OK(second.begin(use(1, 1))); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[1][1]));
  EXPECT_TRUE(is_held(streams[1][1]));
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(streams[1][1]));
  // The graph does not wait for a later launch that reuses the same event.
  launch();
  join_second();
  Gate shut;
  shut.stand_in(streams[0][0]);
  launch();
  GPU_OK(gpu_api()->launch_graph(graph, streams[1][1]));
  EXPECT_TRUE(passes(streams[1][1]));
  shut.open();
  join_second();
  GPU_OK(gpu_api()->synchronize_stream(streams[0][0]));
}

}  // namespace
}  // namespace rondo::gpu
