// SPDX-License-Identifier: Apache-2.0
// A device without progress reports what each queue waits for.
#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

// Until the engine has reported it.
void wait_for_a_standstill(void* engine) {
  while (static_cast<Engine*>(engine)->standstills() == 0) std::this_thread::yield();
}

TEST(Standstill, NamesWhatEveryQueueIsBehind) {
  Config config{.devices = 2, .queues = 1};
  config.standstill_seconds = 0.01;
  TestDevice gpu(config);
  const GpuStream first = gpu.stream();
  const GpuEvent event = gpu.event();
  EXPECT_CUDA(calls::set_device(1));
  const GpuStream second = gpu.stream();
  EXPECT_CUDA(calls::launch_host(first, wait_for_a_standstill, &platform().engine));
  EXPECT_CUDA(calls::record_event(event, first, GpuEventUse::kPlain));
  EXPECT_CUDA(calls::stream_wait_event(second, event, GpuEventUse::kPlain));
  testing::internal::CaptureStderr();
  EXPECT_CUDA(calls::synchronize_stream(second));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("nothing has ended, while a call waits"), text.npos) << text;
  EXPECT_NE(text.find("  device 0, queue 0:\n"
                      "    #1 host function (stream 1)\n"
                      "    #2 event record (stream 1), behind #1 host function (stream 1)\n"
                      "  device 1, queue 0:\n"
                      "    #3 event wait (stream 2), behind #2 event record (stream 1)\n"),
            text.npos)
      << text;
  EXPECT_CUDA(calls::set_device(0));
}

TEST(Standstill, IsNoneWhileCommandsEnd) {
  Config config{.devices = 1};
  config.standstill_seconds = 3600;
  TestDevice gpu(config);
  const GpuStream stream = gpu.stream();
  EXPECT_CUDA(TestDevice::launch("idle", {}, stream, [] {}));
  EXPECT_CUDA(calls::synchronize_stream(stream));
  EXPECT_EQ(platform().engine.standstills(), 0);
}

}  // namespace
}  // namespace rondo::simt
