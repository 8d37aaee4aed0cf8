// SPDX-License-Identifier: Apache-2.0
// How many event nodes the library adds to a graph that captures its calls, and what calls beside a
// captured one launch, on the emulated GPU.
#include <cstring>

#include "tests/gpu/device_case.h"
#include "tests/simt/device/command.h"
#include "tests/simt/device/table.h"
#include "tests/support/environment.h"

namespace rondo::test {
namespace {

constexpr std::size_t kNodeCount = 100;

struct Nodes {
  int all = 0, waits = 0, records = 0;
  int events() const { return waits + records; }
};

Nodes nodes_of(const void* graph) {
  Nodes nodes;
  for (const simt::Graph::Node& node : static_cast<const simt::Graph*>(graph)->nodes) {
    ++nodes.all;
    nodes.waits += std::strcmp(node.operation.what, "event wait") == 0;
    nodes.records += std::strcmp(node.operation.what, "event record") == 0;
  }
  return nodes;
}

// Ranks of this process, with a graph of `calls` of all of them, forked off the first one's stream.
class Captured {
 public:
  Captured(const std::vector<int>& devices, const ncclConfig_t* config = nullptr)
      : devices_(devices) {
    const int n = static_cast<int>(devices.size());
    comms.resize(devices.size());
    streams.resize(devices.size());
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(gpu_api()->set_device(devices[r]), kGpuSuccess);
      EXPECT_EQ(gpu_api()->create_stream(&streams[r], 0), kGpuSuccess);
      buffers.emplace_back(4 * kNodeCount * n, 0);
      results.emplace_back(4 * kNodeCount * n, 0);
      EXPECT_EQ(ncclCommInitRankConfig(&comms[r], n, id, r, const_cast<ncclConfig_t*>(config)),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  ~Captured() {
    if (graph != nullptr) gpu_api()->destroy_graph(graph);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    for (const GpuStream stream : streams) gpu_api()->destroy_stream(stream);
    for (const GpuEvent event : events_) gpu_api()->destroy_event(event);
    gpu_api()->set_device(0);
  }
  // one(rank): enqueues one call of the rank.
  template <class One>
  void call(const One& one) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t r = 0; r < streams.size(); ++r) {
      gpu_api()->set_device(devices_[r]);
      EXPECT_EQ(one(static_cast<int>(r)), ncclSuccess) << ncclGetLastError(nullptr);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  template <class One>
  Nodes of(int calls, const One& one) {
    EXPECT_EQ(gpu_api()->begin_capture(streams[0], GpuCaptureMode::kRelaxed), kGpuSuccess);
    for (std::size_t r = 1; r < streams.size(); ++r) order(0, r);
    for (int i = 0; i < calls; ++i) call(one);
    for (std::size_t r = 1; r < streams.size(); ++r) order(r, 0);
    gpu_api()->set_device(devices_[0]);
    EXPECT_EQ(gpu_api()->end_capture(streams[0], &graph), kGpuSuccess);
    return nodes_of(graph);
  }
  ncclResult_t sum(int r, bool in_place) {
    return ncclAllReduce(buffers[r].data(), (in_place ? buffers : results)[r].data(), kNodeCount,
                         ncclFloat32, ncclSum, comms[r], streams[r]);
  }

  std::vector<ncclComm_t> comms;
  std::vector<GpuStream> streams;
  std::vector<DeviceBuffer> buffers, results;
  void* graph = nullptr;

 private:
  void order(std::size_t before, std::size_t after) {
    gpu_api()->set_device(devices_[before]);
    EXPECT_EQ(gpu_api()->create_event(&events_.emplace_back(), kEventPlain), kGpuSuccess);
    gpu_api()->record_event(events_.back(), streams[before], GpuEventUse::kPlain);
    gpu_api()->stream_wait_event(streams[after], events_.back(), GpuEventUse::kPlain);
  }
  const std::vector<int> devices_;
  std::vector<GpuEvent> events_;
};

constexpr int kNodeCalls = 5;

TEST(GraphNodes, OneRankInPlaceAddsNone) {
  Captured one({0});
  EXPECT_EQ(one.of(kNodeCalls, [&](int r) { return one.sum(r, true); }).all, 0);
}

TEST(GraphNodes, OneRankAddsItsCopiesAlone) {
  Captured one({0});
  const Nodes nodes = one.of(kNodeCalls, [&](int r) { return one.sum(r, false); });
  EXPECT_EQ(nodes.all, kNodeCalls);
  EXPECT_EQ(nodes.events(), 0);
}

TEST(GraphNodes, OneRanksMessagesToItselfAddNoEvents) {
  Captured one({0});
  const Nodes nodes = one.of(kNodeCalls, [&](int r) {
    ncclSend(one.buffers[r].data(), kNodeCount, ncclFloat32, r, one.comms[r], one.streams[r]);
    return ncclRecv(one.results[r].data(), kNodeCount, ncclFloat32, r, one.comms[r],
                    one.streams[r]);
  });
  EXPECT_EQ(nodes.all, kNodeCalls);
  EXPECT_EQ(nodes.events(), 0);
}

// One launch serves all ranks of a GPU.
TEST(GraphNodes, RanksOfOneGpuAddOneACallAndAWaitEach) {
  Captured three({0, 0, 0});
  const Nodes nodes = three.of(kNodeCalls, [&](int r) { return three.sum(r, false); });
  EXPECT_EQ(nodes.records, kNodeCalls);
  EXPECT_LE(nodes.waits, 3 + 1);
}

TEST(GraphNodes, RanksWithAGpuEachAddOneACallAndAWaitEach) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  Captured three({0, 1, 2});
  const Nodes nodes = three.of(kNodeCalls, [&](int r) { return three.sum(r, false); });
  EXPECT_EQ(nodes.records, 3 * kNodeCalls);
  EXPECT_EQ(nodes.waits, 3);
}

// Launches that the other ranks miss: each rank shows the group to graphs.
TEST(GraphNodes, MessagesAddOneARankAndGroup) {
  Captured three({0, 0, 0});
  const Nodes nodes = three.of(kNodeCalls, [&](int r) {
    ncclSend(three.buffers[r].data(), kNodeCount, ncclFloat32, (r + 1) % 3, three.comms[r],
             three.streams[r]);
    return ncclRecv(three.results[r].data(), kNodeCount, ncclFloat32, (r + 2) % 3, three.comms[r],
                    three.streams[r]);
  });
  EXPECT_EQ(nodes.records, 3 * kNodeCalls);
  EXPECT_LE(nodes.waits, 2 * 3);  // for its own launches, and for those of all ranks
}

// graphUsageMode 0 and 1: graphs of the communicator never run beside other calls.
TEST(GraphNodes, GraphsThatDoNotMixAddNone) {
  for (const int mode : {0, 1, 2}) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.graphUsageMode = mode;
    for (const std::vector<int>& devices : {std::vector<int>{0, 0}, {0, 1}}) {
      if (gpus_there() <= devices.back()) continue;
      Captured two(devices, &config);
      const Nodes nodes = two.of(kNodeCalls, [&](int r) { return two.sum(r, false); });
      if (mode == 2)
        EXPECT_GT(nodes.events(), 0);
      else
        EXPECT_EQ(nodes.events(), 0);
    }
  }
}

// A captured kernel that clears memory for lines runs with its graph, which may never run. Without
// it a plain call would read what the memory held before: old lines, whose flags may pass.
TEST(GraphNodes, ACaptureThatNeverRunsLeavesLinesToThePlainCall) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  for (const char* const algorithm : {"ring", "oneshot"}) {
    SCOPED_TRACE(algorithm);
    const WithEnvironment by("NCCL_ALGO", algorithm), in_lines("NCCL_PROTO", "LL");
    Captured two({0, 1});
    (void)two.of(1, [&](int r) { return two.sum(r, false); });
    const auto launches_of_a_sum = [&] {
      const std::uint64_t before = simt::launch_counts().launches;
      two.call([&](int r) { return two.sum(r, false); });
      return simt::launch_counts().launches - before;
    };
    const std::uint64_t first = launches_of_a_sum(), second = launches_of_a_sum();
    EXPECT_EQ(second, 2u);
    EXPECT_EQ(first, 2 * second) << "each device clears its lines first";
  }
}

}  // namespace
}  // namespace rondo::test
