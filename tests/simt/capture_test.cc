// SPDX-License-Identifier: Apache-2.0
// Capture and replay: calls that CUDA refuses fail with CUDA's errors, and graphs replay in order.
#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    data = gpu.allocate<std::uint32_t>(1);
    gpu.clear(data, 4);
    stream = gpu.stream();
  }
  GpuError add(GpuStream on) {
    return TestDevice::launch("add", {.threads = 1}, on,
                              [at = data] { device::store(at, device::load(at) + 1); });
  }
  // Error of a call while this thread captures in a mode, and error of the end of the capture.
  template <class Call>
  std::pair<GpuError, GpuError> during(GpuCaptureMode mode, const Call& call) {
    EXPECT_CUDA(calls::begin_capture(stream, mode));
    EXPECT_CUDA(add(stream));
    const GpuError error = call();
    void* graph = nullptr;
    const GpuError ended = calls::end_capture(stream, &graph);
    if (graph != nullptr) {
      EXPECT_CUDA(calls::destroy_graph(graph));
    }
    return {error, ended};
  }

  TestDevice gpu{Config{.devices = 2, .seed = 3}};
  std::uint32_t* data = nullptr;
  GpuStream stream = nullptr;
};

TEST_F(CaptureTest, IllegalCallsFailAndEndTheCapture) {
  using Errors = std::pair<GpuError, GpuError>;
  const Errors illegal{kGpuCaptureUnsupported, kGpuCaptureInvalidated};
  const GpuStream other = gpu.stream();
  const GpuEvent event = gpu.event();
  EXPECT_CUDA(calls::record_event(event, other, GpuEventUse::kPlain));
  EXPECT_CUDA(calls::synchronize_stream(other));
  void* memory = nullptr;
  const auto allocate = [&] { return calls::allocate(&memory, 16); };
  const auto release = [&] { return calls::free_memory(memory); };
  const auto query = [&] { return calls::query_event(event); };
  const auto sync_device = [] { return calls::synchronize_device(); };
  const auto sync_own = [&] { return calls::synchronize_stream(stream); };
  const auto query_own = [&] { return calls::query_stream(stream); };
  for (const GpuCaptureMode mode : {GpuCaptureMode::kGlobal, GpuCaptureMode::kThreadLocal}) {
    EXPECT_EQ(during(mode, allocate), illegal);
    EXPECT_EQ(during(mode, query), illegal);
    EXPECT_EQ(during(mode, sync_device), illegal);
    EXPECT_EQ(during(mode, sync_own), illegal);
    EXPECT_EQ(during(mode, query_own), illegal);
  }
  const Errors fine{kGpuSuccess, kGpuSuccess};
  EXPECT_EQ(during(GpuCaptureMode::kRelaxed, allocate), fine);
  EXPECT_EQ(during(GpuCaptureMode::kRelaxed, query), fine);
  EXPECT_EQ(during(GpuCaptureMode::kRelaxed, release), fine);
  EXPECT_EQ(during(GpuCaptureMode::kRelaxed, sync_own), illegal) << "its own stream, in any mode";
}

TEST_F(CaptureTest, ThreadInRelaxedModeIsFreeBesideAGlobalCapture) {
  EXPECT_CUDA(calls::begin_capture(stream, GpuCaptureMode::kGlobal));
  std::thread([] {
    void* memory = nullptr;
    GpuCaptureMode mode = GpuCaptureMode::kRelaxed;
    EXPECT_CUDA(calls::exchange_capture_mode(&mode));
    EXPECT_CUDA(calls::allocate(&memory, 16));
  }).join();
  GpuCaptureInfo info;
  EXPECT_CUDA(calls::capture_info(stream, &info));
  EXPECT_EQ(info.state, GpuCapture::kActive);
  std::thread([] {
    void* memory = nullptr;
    EXPECT_EQ(calls::allocate(&memory, 16), kGpuCaptureUnsupported);
  }).join();
  EXPECT_CUDA(calls::capture_info(stream, &info));
  EXPECT_EQ(info.state, GpuCapture::kInvalidated);
  void* graph = nullptr;
  EXPECT_EQ(calls::end_capture(stream, &graph), kGpuCaptureInvalidated);
}

TEST_F(CaptureTest, DestroyingAGraphIsUnsafe) {
  const auto destroy = [] { return calls::destroy_graph(nullptr); };
  EXPECT_EQ(during(GpuCaptureMode::kThreadLocal, destroy),
            (std::pair<GpuError, GpuError>{kGpuCaptureUnsupported, kGpuCaptureInvalidated}));
}

TEST_F(CaptureTest, WaitingForWorkOutsideIsIsolated) {
  const GpuEvent event = gpu.event();
  EXPECT_CUDA(calls::record_event(event, gpu.stream(), GpuEventUse::kPlain));
  const auto wait = [&] { return calls::stream_wait_event(stream, event, GpuEventUse::kPlain); };
  EXPECT_EQ(during(GpuCaptureMode::kRelaxed, wait),
            (std::pair<GpuError, GpuError>{kCaptureIsolation, kGpuCaptureInvalidated}));
  const auto external = [&] {
    return calls::stream_wait_event(stream, event, GpuEventUse::kExternal);
  };
  EXPECT_EQ(during(GpuCaptureMode::kRelaxed, external),
            (std::pair<GpuError, GpuError>{kGpuSuccess, kGpuSuccess}));
}

TEST_F(CaptureTest, ForkedStreamMustJoin) {
  const GpuStream side = gpu.stream();
  const GpuEvent forked = gpu.event(), joined = gpu.event();
  for (const bool join : {false, true}) {
    EXPECT_CUDA(calls::begin_capture(stream, GpuCaptureMode::kRelaxed));
    EXPECT_CUDA(calls::record_event(forked, stream, GpuEventUse::kPlain));
    EXPECT_CUDA(calls::stream_wait_event(side, forked, GpuEventUse::kPlain));
    EXPECT_CUDA(add(side));
    EXPECT_CUDA(calls::record_event(joined, side, GpuEventUse::kPlain));
    EXPECT_EQ(calls::query_event(joined), kCapturedEvent);
    if (join) {
      EXPECT_CUDA(calls::stream_wait_event(stream, joined, GpuEventUse::kPlain));
    }
    void* graph = nullptr;
    EXPECT_EQ(calls::end_capture(stream, &graph), join ? kGpuSuccess : kCaptureUnjoined);
  }
}

TEST_F(CaptureTest, LegacyStreamMayNotMeetACapturingBlockingStream) {
  GpuStream blocking = nullptr;
  EXPECT_CUDA(calls::create_stream_with(&blocking, 0, true));
  EXPECT_CUDA(calls::begin_capture(blocking, GpuCaptureMode::kRelaxed));
  EXPECT_EQ(calls::fill(data, 0, 4, kLegacyStream), kCaptureImplicit);
  void* graph = nullptr;
  EXPECT_EQ(calls::end_capture(blocking, &graph), kGpuCaptureInvalidated);
}

TEST(Replay, RunsEveryTimeAndInOrderForManySeeds) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    TestDevice gpu({.devices = 1, .seed = seed});
    auto* const data = gpu.allocate<std::uint32_t>(2);
    gpu.clear(data, 8);
    const GpuStream stream = gpu.stream(), side = gpu.stream(), other = gpu.stream();
    const GpuEvent forked = gpu.event(), joined = gpu.event();
    const auto add = [&](GpuStream on, std::uint32_t* at) {
      return TestDevice::launch("add", {.threads = 1}, on,
                                [=] { device::store(at, device::load(at) + 1); });
    };
    EXPECT_CUDA(calls::begin_capture(stream, GpuCaptureMode::kGlobal));
    EXPECT_CUDA(add(stream, data));
    EXPECT_CUDA(calls::record_event(forked, stream, GpuEventUse::kPlain));
    EXPECT_CUDA(calls::stream_wait_event(side, forked, GpuEventUse::kPlain));
    EXPECT_CUDA(add(side, data));
    EXPECT_CUDA(add(stream, data + 1));
    EXPECT_CUDA(calls::record_event(joined, side, GpuEventUse::kPlain));
    EXPECT_CUDA(calls::stream_wait_event(stream, joined, GpuEventUse::kPlain));
    EXPECT_CUDA(add(stream, data));
    void* graph = nullptr;
    EXPECT_CUDA(calls::end_capture(stream, &graph));
    EXPECT_EQ(gpu.read(data), 0u) << "captured work does not run";
    for (int run = 0; run < 10; ++run)
      EXPECT_CUDA(calls::launch_graph(graph, run % 2 == 0 ? stream : other));
    EXPECT_CUDA(calls::synchronize_stream(stream));
    EXPECT_CUDA(calls::synchronize_stream(other));
    EXPECT_EQ(gpu.read(data), 30u) << "seed " << seed;
    EXPECT_EQ(gpu.read(data + 1), 10u) << "seed " << seed;
    EXPECT_CUDA(calls::destroy_graph(graph));
  }
}

}  // namespace
}  // namespace rondo::simt
