// What streams and graphs wait for, and what they do not: a launch runs after earlier work of its
// own ranks, but not after work that other ranks have launched since.
#include <atomic>
#include <chrono>
#include <thread>

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
  // Rank r is on device r; further ranks share the last device.
  void open(StreamOrder& order, std::vector<int> devices = {0, 1}) {
    RONDO_OK(order.open({.devices = std::move(devices)}));
  }
  // A group of calls of the rank on a stream of a device.
  void post(StreamOrder& order, int rank, GpuStream stream) {
    order.begin_group(rank, false);
    RONDO_OK(order.add(rank, stream));
  }
  static LaunchPosition site(int rank, GpuStream stream) {
    return {rank, stream, capture_of(stream), nullptr};
  }
  static void launch(StreamOrder& order, int rank, GpuStream stream, RankSet ranks,
                     StreamOrder::Kind kind = StreamOrder::Kind::kCollective) {
    RONDO_OK(order.begin(site(rank, stream), ranks, kind));
    RONDO_OK(order.end(site(rank, stream), ranks, kind));
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
  // A part on each device; a gate, if used, is before device 1's part.
  void launch_on_each(StreamOrder& order) {
    for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank][0]);
    for (int rank = 0; rank < 2; ++rank) launch(order, rank, streams[rank][0], set_of(rank));
    for (int rank = 0; rank < 2; ++rank) RONDO_OK(order.join(rank));
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

constexpr RankSet kFirst = 1, kSecond = 2, kBoth = 3;
constexpr auto kMessages = StreamOrder::Kind::kMessages;

TEST_F(Orders, ACallComesAfterItsOwnRanksPartAlone) {
  StreamOrder order;
  open(order);
  gate.stand_in(streams[1][0]);
  launch_on_each(order);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank][1]);
  EXPECT_TRUE(passes(streams[0][1]));
  EXPECT_TRUE(is_held(streams[1][1]));
}

// Also before the rank's streams wait for what its group has launched.
TEST_F(Orders, ACallComesAfterEarlierCallsOfItsGroup) {
  StreamOrder order;
  open(order);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank][0]);
  gate.stand_in(streams[1][0]);
  launch(order, 1, streams[1][0], kBoth);
  launch(order, 0, streams[0][1], kFirst);
  EXPECT_TRUE(is_held(streams[0][1]));
}

TEST_F(Orders, MessagesOfAGroupDoNotWaitForEachOther) {
  StreamOrder order;
  open(order);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank][0]);
  gate.stand_in(streams[1][0]);
  launch(order, 1, streams[1][0], kBoth, kMessages);
  launch(order, 0, streams[0][1], kFirst, kMessages);
  EXPECT_TRUE(passes(streams[0][1]));
  // The rank's stream waits for both.
  RONDO_OK(order.join(0));
  EXPECT_TRUE(is_held(streams[0][0]));
}

TEST_F(Orders, AGraphWaitsForNothingThatAnotherRankHasLaunchedSince) {
  StreamOrder order;
  open(order);
  void* of_rank[2];
  for (int rank = 0; rank < 2; ++rank)
    of_rank[rank] = capture(streams[rank][1], [&] { post(order, rank, streams[rank][1]); });
  gate.stand_in(streams[1][0]);
  launch_on_each(order);
  for (int rank = 0; rank < 2; ++rank)
    GPU_OK(gpu_api()->launch_graph(of_rank[rank], streams[rank][1]));
  EXPECT_TRUE(passes(streams[0][1]));
  EXPECT_TRUE(is_held(streams[1][1]));
  // Uncaptured work does not wait either.
  post(order, 0, streams[0][0]);
  EXPECT_TRUE(passes(streams[0][0]));
}

TEST_F(Orders, AGraphWaitsForWhatServedItsRankBeforeAnyCapture) {
  StreamOrder order;
  open(order);
  gate.stand_in(streams[1][0]);
  launch(order, 1, streams[1][0], kBoth);
  void* const graph = capture(streams[0][1], [&] { post(order, 0, streams[0][1]); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[0][1]));
  EXPECT_TRUE(is_held(streams[0][1]));
  EXPECT_FALSE(order.is_over());
}

// No part of a graph waits for work on the order's own stream, which may share a hardware queue
// with a stream that waits for this graph.
TEST_F(Orders, AFirstCaptureRecordsNothingElsewhere) {
  StreamOrder order;
  open(order);
  gate.stand_in(order.own_stream(1));
  void* const graph = capture(streams[0][1], [&] { post(order, 0, streams[0][1]); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[0][1]));
  EXPECT_TRUE(passes(streams[0][1]));
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(order.own_stream(1)));
}

TEST_F(Orders, ARankWaitsForNoLaunchOfAnotherGraph) {
  StreamOrder order;
  open(order);
  capture(streams[0][0], [&] {
    post(order, 0, streams[0][0]);
    capture(streams[1][0], [&] {
      post(order, 1, streams[1][0]);
      launch(order, 1, streams[1][0], kBoth);
    });
    RONDO_OK(order.join(0));
  });
  EXPECT_EQ(graphs.size(), 2u);
}

TEST_F(Orders, ARankThatComesLateWaitsForItsLaunchAndNoGraphSince) {
  StreamOrder order;
  open(order);
  void* const graph = capture(streams[1][0], [&] {
    post(order, 1, streams[1][0]);
    RONDO_OK(order.begin(site(1, streams[1][0]), kSecond, kMessages));
    gate.stand_in(streams[1][0]);
    RONDO_OK(order.end(site(1, streams[1][0]), kSecond, kMessages));
    RONDO_OK(order.join(1));
  });
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank][0]);
  launch(order, 1, streams[1][0], kBoth);
  GPU_OK(gpu_api()->launch_graph(graph, streams[1][0]));
  RONDO_OK(order.join(0));
  EXPECT_TRUE(passes(streams[0][0]));
}

TEST_F(Orders, ARankThatComesLateWaitsForItsMessagesAlone) {
  StreamOrder order;
  open(order, {0, 1, 1});
  for (int rank = 0; rank < 3; ++rank) post(order, rank, streams[rank == 0 ? 0 : 1][rank / 2]);
  launch(order, 0, streams[0][0], kBoth, kMessages);
  gate.stand_in(streams[0][0]);
  launch(order, 0, streams[0][0], set_of(0) | set_of(2), kMessages);
  launch(order, 0, streams[0][0], kFirst, kMessages);
  RONDO_OK(order.join(1));
  EXPECT_TRUE(passes(streams[1][0]));
  RONDO_OK(order.join(2));
  EXPECT_TRUE(is_held(streams[1][1]));
  EXPECT_FALSE(order.is_over());
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(streams[1][1]));
}

class SharedMessages : public Orders {
 protected:
  void SetUp() override {
    Orders::SetUp();
    if (!IsSkipped()) open(order);
  }
  // For both ranks, on the first one's stream.
  void send() {
    for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank][0]);
    GPU_OK(gpu_api()->set_device(0));
    launch(order, 0, streams[0][0], kBoth, kMessages);
    RONDO_OK(order.join(0));
  }
  StreamOrder order;
};

// Repeated, because streams may also be delayed by others in their hardware queue.
TEST_F(SharedMessages, ComeBeforeOtherStreamsAndGraphsOfTheirRanks) {
  constexpr int kTimes = 10;
  for (int time = 0; time < 2 * kTimes; ++time) {
    const bool in_graph = time >= kTimes;
    const auto begin = [&] { post(order, 1, streams[1][1]); };
    void* const graph = in_graph ? capture(streams[1][1], begin) : nullptr;
    Gate shut;
    shut.stand_in(streams[0][0]);
    send();
    RONDO_OK(order.join(1));
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
TEST_F(SharedMessages, ComeBeforeAFirstGraph) {
  gate.stand_in(streams[0][0]);
  send();
  RONDO_OK(order.join(1));
  void* const graph = capture(streams[1][1], [&] { post(order, 1, streams[1][1]); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[1][1]));
  EXPECT_TRUE(is_held(streams[1][1]));
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(streams[1][1]));
  // The graph does not wait for a later launch before its rank does.
  send();
  RONDO_OK(order.join(1));
  Gate shut;
  shut.stand_in(streams[0][0]);
  send();
  GPU_OK(gpu_api()->launch_graph(graph, streams[1][1]));
  EXPECT_TRUE(passes(streams[1][1]));
  shut.open();
  RONDO_OK(order.join(1));
  GPU_OK(gpu_api()->synchronize_stream(streams[0][0]));
}

}  // namespace
}  // namespace rondo::gpu
