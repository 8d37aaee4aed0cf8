// SPDX-License-Identifier: Apache-2.0
// A proxy with tasks that count: turns, nested turns, sleeps and wakeups, and the order of
// shutdown.
#include "transport/proxy/proxy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/poll_until.h"

namespace rondo::gpu {
namespace {

struct Task final : ProxyTask {
  bool progress() override {
    EXPECT_EQ(inside.fetch_add(1), 0) << "a task inside itself";
    turns.fetch_add(1);
    const bool moved = body ? body() : false;
    inside.fetch_sub(1);
    return moved;
  }
  bool is_busy() const override { return busy; }
  void finish() override { at_end(); }

  std::function<bool()> body;
  std::function<void()> at_end = [] {};
  std::atomic<int> turns{0}, inside{0};
  std::atomic<bool> busy{false};
};

bool soon(const std::function<bool()>& holds) { return poll_until(holds, seconds_from_now(300)); }

TEST(Proxy, ATurnByHandRunsEveryTaskOnce) {
  Proxy proxy;
  Task one, other;
  ASSERT_TRUE(proxy.open().ok());
  proxy.add(one);
  proxy.add(other);
  EXPECT_FALSE(proxy.turn());
  other.body = [] { return true; };
  EXPECT_TRUE(proxy.turn());
  EXPECT_EQ(one.turns, 2);
  EXPECT_EQ(other.turns, 2);
}

TEST(Proxy, OthersGoOnWhileATaskWaits) {
  Proxy proxy;
  Task waits, moves;
  std::atomic<bool> over{false};
  waits.body = [&] {
    if (over) return false;
    while (moves.turns < 100) proxy.turn();
    over = true;
    return true;
  };
  ASSERT_TRUE(proxy.open().ok());
  proxy.add(waits);
  proxy.add(moves);
  ASSERT_TRUE(proxy.start().ok());
  EXPECT_TRUE(soon([&] { return over.load(); }));
  proxy.stop();
}

TEST(Proxy, ADoorbellWakesTheThreadThatNaps) {
  Proxy proxy;
  Task task;
  ASSERT_TRUE(proxy.open().ok());
  proxy.add(task);
  std::atomic<int> rung{0};
  task.body = [&] {
    if (proxy.nap(std::chrono::milliseconds(900))) rung.fetch_add(1);
    return true;
  };
  ASSERT_TRUE(proxy.start().ok());
  EXPECT_TRUE(soon([&] { return proxy.ring(), rung >= 3; }));
  proxy.stop();
}

// A busy task expects work that no descriptor announces.
TEST(Proxy, NeverNapsWhileATaskIsBusy) {
  Proxy proxy;
  Task task;
  task.busy = true;
  ASSERT_TRUE(proxy.open().ok());
  proxy.add(task);
  ASSERT_TRUE(proxy.start().ok());
  EXPECT_TRUE(soon([&] { return task.turns > 20'000; }));
  EXPECT_EQ(proxy.naps(), 0u);
  task.busy = false;
  EXPECT_TRUE(soon([&] { return proxy.naps() > 3; }));
  proxy.stop();
}

TEST(Proxy, TasksFinishInOrderOnceTheThreadHasEndedItsTurns) {
  std::vector<std::string> ended;
  Task first, second;
  first.at_end = [&] { ended.push_back("first"); };
  second.at_end = [&] { ended.push_back("second"); };
  {
    Proxy proxy;
    ASSERT_TRUE(proxy.open().ok());
    proxy.add(first);
    proxy.add(second);
    ASSERT_TRUE(proxy.start().ok());
    EXPECT_TRUE(soon([&] { return second.turns > 10; }));
    EXPECT_TRUE(ended.empty());
    proxy.stop();
    EXPECT_FALSE(proxy.runs());
  }
  EXPECT_EQ(ended, (std::vector<std::string>{"first", "second"}));
}

}  // namespace
}  // namespace rondo::gpu
