// SPDX-License-Identifier: Apache-2.0
// launchCompletionEvent of a call: recorded on the call's stream, behind it.
#include <atomic>
#include <vector>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr std::size_t kEventBytes = 5000;

std::vector<int> two_places(bool several) {
  int devices = 0;
  EXPECT_EQ(gpu_api()->device_count(&devices), kGpuSuccess);
  return {0, several && devices > 1 ? 1 : 0};
}

class LaunchEvent : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Devices, LaunchEvent, testing::Bool(),
                         [](const auto& info) { return info.param ? "several" : "one"; });

// Another stream that waits for the event alone reads the result.
TEST_P(LaunchEvent, IsOverWithTheCallAndNotBefore) {
  DeviceRanks ranks(two_places(GetParam()));
  std::vector<DeviceBuffer> buffers;
  std::vector<GpuEvent> events(2);
  std::atomic<bool> go{false};
  const auto hold_up = [](void* flag) {
    EXPECT_TRUE(wait_until([flag] { return static_cast<std::atomic<bool>*>(flag)->load(); }));
  };
  for (int r = 0; r < 2; ++r) {
    ranks.use_device_of(r);
    buffers.emplace_back(kEventBytes, 0);
    buffers[r].put(Bytes(kEventBytes, std::byte{static_cast<unsigned char>(r + 3)}), 0,
                   ranks[r].stream);
    GPU_OK(gpu_api()->create_event(&events[r], kEventPlain));
  }
  // After all copies, which would wait behind it in a hardware queue that the streams share.
  for (int r = 0; r < 2; ++r) {
    ranks.use_device_of(r);
    GPU_OK(gpu_api()->launch_host(ranks[r].stream, hold_up, &go));
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.launchCompletionEvent = events[r];
    NCCL_OK(ncclAllReduceConfig(buffers[r].data(), buffers[r].data(), kEventBytes, ncclUint8,
                                ncclSum, ranks[r].comm, ranks[r].stream, &config));
  }
  NCCL_OK(ncclGroupEnd());
  for (const GpuEvent event : events) EXPECT_EQ(gpu_api()->query_event(event), kGpuNotReady);
  go = true;
  for (int r = 0; r < 2; ++r) {
    ranks.use_device_of(r);
    GpuStream other = nullptr;
    GPU_OK(gpu_api()->create_stream(&other, 0));
    GPU_OK(gpu_api()->stream_wait_event(other, events[r], GpuEventUse::kPlain));
    buffers[r].get(other);
    for (std::size_t i = 0; i < kEventBytes; ++i) ASSERT_EQ(buffers[r].host()[i], std::byte{7});
    EXPECT_EQ(gpu_api()->query_event(events[r]), kGpuSuccess);
    GPU_OK(gpu_api()->destroy_stream(other));
    GPU_OK(gpu_api()->destroy_event(events[r]));
  }
}

// In a capture it is a part of the graph, as if the program had recorded it.
TEST(LaunchEventOfAGraph, OrdersWhatWaitsForIt) {
  DeviceRanks ranks(1);
  const GpuStream stream = ranks[0].stream;
  DeviceBuffer in(kEventBytes, 0), out(kEventBytes, 0), copy(kEventBytes, 0);
  GpuStream other = nullptr;
  GpuEvent called = nullptr, copied = nullptr;
  GPU_OK(gpu_api()->create_stream(&other, 0));
  GPU_OK(gpu_api()->create_event(&called, kEventPlain));
  GPU_OK(gpu_api()->create_event(&copied, kEventPlain));
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.launchCompletionEvent = called;
  void* graph = nullptr;
  GPU_OK(gpu_api()->begin_capture(stream, GpuCaptureMode::kThreadLocal));
  NCCL_OK(ncclAllReduceConfig(in.data(), out.data(), kEventBytes, ncclUint8, ncclSum, ranks[0].comm,
                              stream, &config));
  GPU_OK(gpu_api()->stream_wait_event(other, called, GpuEventUse::kPlain));
  GPU_OK(gpu_api()->copy(copy.data(), out.data(), kEventBytes, GpuCopy::kDeviceToDevice, other));
  GPU_OK(gpu_api()->record_event(copied, other, GpuEventUse::kPlain));
  GPU_OK(gpu_api()->stream_wait_event(stream, copied, GpuEventUse::kPlain));
  GPU_OK(gpu_api()->end_capture(stream, &graph));
  for (const unsigned char value : {5, 9}) {
    in.put(Bytes(kEventBytes, std::byte{value}), 0, stream);
    GPU_OK(gpu_api()->launch_graph(graph, stream));
    copy.get(stream);
    for (std::size_t i = 0; i < kEventBytes; ++i) ASSERT_EQ(copy.host()[i], std::byte{value});
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
  GPU_OK(gpu_api()->destroy_event(called));
  GPU_OK(gpu_api()->destroy_event(copied));
  GPU_OK(gpu_api()->destroy_stream(other));
}

}  // namespace
}  // namespace rondo::test
