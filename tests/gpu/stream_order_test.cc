// SPDX-License-Identifier: Apache-2.0
// What streams and graphs wait for, and what they do not: a launch runs after earlier work of its
// own ranks, but not after work that other ranks have launched since. A stream that shares a
// hardware queue with another one also waits for that; so these tests need many queues.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
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
#ifdef RONDO_SIMT
    const char* const asked = std::getenv("RONDO_SIMT");
    if (asked == nullptr || std::string(asked).find("queues=") == std::string::npos)
      GTEST_SKIP() << "needs RONDO_SIMT=queues=4000";
#endif
    for (GpuStream& stream : streams) GPU_OK(gpu_api()->create_stream(&stream, 0));
  }
  void TearDown() override {
    gate.open();
    for (GpuStream stream : streams) {
      if (stream == nullptr) continue;
      EXPECT_EQ(gpu_api()->synchronize_stream(stream), kGpuSuccess);
      EXPECT_EQ(gpu_api()->destroy_stream(stream), kGpuSuccess);
    }
    for (void* graph : graphs) EXPECT_EQ(gpu_api()->destroy_graph(graph), kGpuSuccess);
  }

  static GpuCaptureInfo capture_of(GpuStream stream) {
    GpuCaptureInfo info;
    EXPECT_EQ(gpu_api()->capture_info(stream, &info), kGpuSuccess);
    return info;
  }
  static void open(StreamOrder& order, int ranks = 2) {
    RONDO_OK(order.open({.device = 0, .ranks = ranks}));
  }
  // A group of calls of the rank.
  static void post(StreamOrder& order, int rank, GpuStream stream) {
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
  // One launch for each rank, on its first stream; a gate may be before the second one's.
  void launch_each(StreamOrder& order) {
    for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
    for (int rank = 0; rank < 2; ++rank) launch(order, rank, streams[rank], set_of(rank));
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
    return test::wait_until([&] { return is_over(stream); });
  }

  GpuStream streams[4] = {};  // rank r: streams r and r + 2
  std::vector<void*> graphs;
  Gate gate;
};

constexpr RankSet kFirst = 1, kSecond = 2, kBoth = 3;
constexpr auto kMessages = StreamOrder::Kind::kMessages;

TEST_F(Orders, ACallComesAfterItsOwnRanksLaunchesAlone) {
  StreamOrder order;
  open(order);
  gate.stand_in(streams[1]);
  launch_each(order);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank + 2]);
  EXPECT_TRUE(passes(streams[2]));
  EXPECT_TRUE(is_held(streams[3]));
}

// Also before the rank's streams wait for what its group has launched.
TEST_F(Orders, ACallComesAfterEarlierCallsOfItsGroup) {
  StreamOrder order;
  open(order);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
  gate.stand_in(streams[1]);
  launch(order, 1, streams[1], kBoth);
  launch(order, 0, streams[2], kFirst);
  EXPECT_TRUE(is_held(streams[2]));
}

TEST_F(Orders, MessagesOfAGroupDoNotWaitForEachOther) {
  StreamOrder order;
  open(order, 3);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
  gate.stand_in(streams[1]);
  launch(order, 1, streams[1], kBoth, kMessages);
  launch(order, 0, streams[2], kFirst, kMessages);
  EXPECT_TRUE(passes(streams[2]));
  // The rank's stream waits for both.
  RONDO_OK(order.join(0));
  EXPECT_TRUE(is_held(streams[0]));
}

TEST_F(Orders, AGraphWaitsForNothingThatAnotherRankHasLaunchedSince) {
  StreamOrder order;
  open(order);
  void* of_rank[2];
  for (int rank = 0; rank < 2; ++rank)
    of_rank[rank] = capture(streams[rank + 2], [&] { post(order, rank, streams[rank + 2]); });
  gate.stand_in(streams[1]);
  launch_each(order);
  for (int rank = 0; rank < 2; ++rank)
    GPU_OK(gpu_api()->launch_graph(of_rank[rank], streams[rank + 2]));
  EXPECT_TRUE(passes(streams[2]));
  EXPECT_TRUE(is_held(streams[3]));
  // Uncaptured work does not wait either.
  post(order, 0, streams[0]);
  EXPECT_TRUE(passes(streams[0]));
}

TEST_F(Orders, AGraphWaitsForMessagesThatServedItsRankBeforeAnyCapture) {
  StreamOrder order;
  open(order, 3);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
  gate.stand_in(streams[1]);
  launch(order, 1, streams[1], kBoth, kMessages);
  void* const graph = capture(streams[2], [&] { post(order, 0, streams[2]); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[2]));
  EXPECT_TRUE(is_held(streams[2]));
  EXPECT_FALSE(order.is_over());
}

TEST_F(Orders, AGraphWaitsForCollectivesThatServedItsRankBeforeAnyCapture) {
  StreamOrder order;
  open(order);
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
  gate.stand_in(streams[1]);
  launch(order, 1, streams[1], kBoth);
  void* const graph = capture(streams[2], [&] {
    post(order, 0, streams[2]);
    launch(order, 0, streams[2], kFirst);
  });
  GPU_OK(gpu_api()->launch_graph(graph, streams[2]));
  EXPECT_TRUE(is_held(streams[2]));
}

// No part of a graph waits for work on the order's own stream, which may share a hardware queue
// with a stream that waits for this graph.
TEST_F(Orders, AFirstCaptureRecordsNothingElsewhere) {
  StreamOrder order;
  open(order);
  gate.stand_in(order.own_stream());
  void* const graph = capture(streams[2], [&] { post(order, 0, streams[2]); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[2]));
  EXPECT_TRUE(passes(streams[2]));
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(order.own_stream()));
}

TEST_F(Orders, ARankWaitsForNoLaunchOfAnotherGraph) {
  StreamOrder order;
  open(order);
  capture(streams[0], [&] {
    post(order, 0, streams[0]);
    capture(streams[1], [&] {
      post(order, 1, streams[1]);
      launch(order, 1, streams[1], kBoth);
    });
    RONDO_OK(order.join(0));
  });
  EXPECT_EQ(graphs.size(), 2u);
}

TEST_F(Orders, ARankThatComesLateWaitsForItsLaunchAndNoGraphSince) {
  StreamOrder order;
  open(order, 3);
  void* const graph = capture(streams[1], [&] {
    post(order, 1, streams[1]);
    RONDO_OK(order.begin(site(1, streams[1]), kSecond, kMessages));
    gate.stand_in(streams[1]);
    RONDO_OK(order.end(site(1, streams[1]), kSecond, kMessages));
    RONDO_OK(order.join(1));
  });
  for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
  launch(order, 1, streams[1], kBoth, kMessages);
  GPU_OK(gpu_api()->launch_graph(graph, streams[1]));
  RONDO_OK(order.join(0));
  EXPECT_TRUE(passes(streams[0]));
}

TEST_F(Orders, ARankThatComesLateWaitsForItsMessagesAlone) {
  StreamOrder order;
  open(order, 3);
  for (int rank = 0; rank < 3; ++rank) post(order, rank, streams[rank]);
  launch(order, 0, streams[0], kBoth, kMessages);
  gate.stand_in(streams[0]);
  launch(order, 0, streams[0], set_of(0) | set_of(2), kMessages);
  launch(order, 0, streams[0], kFirst, kMessages);
  RONDO_OK(order.join(1));
  EXPECT_TRUE(passes(streams[1]));
  RONDO_OK(order.join(2));
  EXPECT_TRUE(is_held(streams[2]));
  EXPECT_FALSE(order.is_over());
}

// Graphs that do not mix with other calls wait for none of them.
TEST_F(Orders, WithoutMixingAGraphWaitsForNothing) {
  StreamOrder order;
  RONDO_OK(order.open({.device = 0, .mixes_graphs = false}));
  post(order, 0, streams[0]);
  gate.stand_in(streams[0]);
  launch(order, 0, streams[0], kFirst);
  void* const graph = capture(streams[2], [&] {
    post(order, 0, streams[2]);
    launch(order, 0, streams[2], kFirst);
    RONDO_OK(order.join(0));
  });
  GPU_OK(gpu_api()->launch_graph(graph, streams[2]));
  EXPECT_TRUE(passes(streams[2]));
}

class SharedMessages : public Orders {
 protected:
  void SetUp() override {
    Orders::SetUp();
    if (!IsSkipped()) open(order, 3);
  }
  // For two ranks, on the first one's stream.
  void send() {
    for (int rank = 0; rank < 2; ++rank) post(order, rank, streams[rank]);
    launch(order, 0, streams[0], kBoth, kMessages);
    RONDO_OK(order.join(0));
  }
  StreamOrder order;
};

TEST_F(SharedMessages, ComeBeforeOtherStreamsAndGraphsOfTheirRanks) {
  for (const bool in_graph : {false, true}) {
    const auto begin = [&] { post(order, 1, streams[3]); };
    void* const graph = in_graph ? capture(streams[3], begin) : nullptr;
    Gate shut;
    shut.stand_in(streams[0]);
    send();
    RONDO_OK(order.join(1));
    if (in_graph) {
      GPU_OK(gpu_api()->launch_graph(graph, streams[3]));
    } else {
      begin();
    }
    EXPECT_TRUE(is_held(streams[3]));
    shut.open();
    for (GpuStream stream : {streams[0], streams[3]}) GPU_OK(gpu_api()->synchronize_stream(stream));
  }
}

// Also for work launched before its first capture.
TEST_F(SharedMessages, ComeBeforeAFirstGraph) {
  gate.stand_in(streams[0]);
  send();
  RONDO_OK(order.join(1));
  void* const graph = capture(streams[3], [&] { post(order, 1, streams[3]); });
  GPU_OK(gpu_api()->launch_graph(graph, streams[3]));
  EXPECT_TRUE(is_held(streams[3]));
  gate.open();
  GPU_OK(gpu_api()->synchronize_stream(streams[3]));
  // The graph does not wait for a later launch before its rank does.
  send();
  RONDO_OK(order.join(1));
  Gate shut;
  shut.stand_in(streams[0]);
  send();
  GPU_OK(gpu_api()->launch_graph(graph, streams[3]));
  EXPECT_TRUE(passes(streams[3]));
  shut.open();
  RONDO_OK(order.join(1));
  GPU_OK(gpu_api()->synchronize_stream(streams[0]));
}

}  // namespace
}  // namespace rondo::gpu
