// SPDX-License-Identifier: Apache-2.0
// Errands: work that other threads run on a proxy's thread, whatever the proxy waits for meanwhile.
#include "transport/proxy/proxy_errand.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace rondo::gpu {
namespace {

net::Deadline in_five_minutes() { return net::Deadline::of(std::chrono::minutes(5)); }

struct WaitingTask final : ProxyTask {
  explicit WaitingTask(Proxy& by) : proxy(by) {}
  bool progress() override {
    if (over || proxy.stops()) return false;
    while (!over && !proxy.stops()) proxy.turn();
    return true;
  }
  Proxy& proxy;
  std::atomic<bool> over{false};
};

TEST(ProxyErrands, RunOnTheProxysThreadWhileAnotherTaskWaits) {
  Proxy proxy;
  ProxyErrands errands(proxy);
  WaitingTask waits(proxy);
  proxy.add(errands);
  proxy.add(waits);
  ASSERT_TRUE(proxy.open().ok());
  ASSERT_TRUE(proxy.start().ok());
  int turns = 0;
  std::thread::id thread;
  const auto step = [&]() -> Result<bool> {
    thread = std::this_thread::get_id();
    return ++turns == 3;
  };
  const Status ran = errands.run(step, in_five_minutes(), "counting to three");
  waits.over = true;
  EXPECT_TRUE(ran.ok()) << ran.error().text;
  EXPECT_EQ(turns, 3);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(ProxyErrands, ReportWhatFailedAndAreForgotten) {
  Proxy proxy;
  ProxyErrands errands(proxy);
  proxy.add(errands);
  ASSERT_TRUE(proxy.open().ok());
  ASSERT_TRUE(proxy.start().ok());
  std::atomic<int> calls{0};
  const auto step = [&]() -> Result<bool> {
    ++calls;
    return fail(StatusCode::kSystemError, "no memory for it");
  };
  const Status ran = errands.run(step, in_five_minutes(), "failing");
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().text, "no memory for it");
  EXPECT_TRUE(errands.run([]() -> Result<bool> { return true; }, in_five_minutes(), "").ok());
  EXPECT_EQ(calls, 1);
}

TEST(ProxyErrands, EndWithTheirDeadlineAndAreCalledNoMore) {
  Proxy proxy;
  ProxyErrands errands(proxy);
  proxy.add(errands);
  ASSERT_TRUE(proxy.open().ok());
  ASSERT_TRUE(proxy.start().ok());
  std::atomic<int> calls{0};
  const auto never = [&]() -> Result<bool> { return ++calls, false; };
  const Status late =
      errands.run(never, net::Deadline::of(std::chrono::milliseconds(20)), "waiting");
  EXPECT_EQ(late.code(), StatusCode::kTimeout);
  EXPECT_NE(late.error().text.find("while waiting"), std::string::npos) << late.error().text;
  const auto aborted = net::Deadline::of(std::chrono::seconds(20), [] { return true; });
  EXPECT_EQ(errands.run(never, aborted, "waiting").code(), StatusCode::kInvalidUsage);
  const int before = calls;
  EXPECT_TRUE(errands.run([]() -> Result<bool> { return true; }, in_five_minutes(), "").ok());
  EXPECT_EQ(calls, before);
}

TEST(ProxyErrands, NeedNoThread) {
  Proxy proxy;
  ProxyErrands errands(proxy);
  int turns = 0;
  const auto step = [&]() -> Result<bool> { return ++turns == 2; };
  EXPECT_TRUE(errands.run(step, in_five_minutes(), "counting").ok());
  EXPECT_EQ(turns, 2);
}

}  // namespace
}  // namespace rondo::gpu
