// SPDX-License-Identifier: Apache-2.0
// Before a thread sleeps on a network it must arm it, and it does not sleep if there is progress to
// make.
#include "transport/net/sleeper.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/proxy/proxy.h"

namespace rondo::net {
namespace {

using Log = std::vector<std::string>;

struct Source final : gpu::ProxyTask {
  bool progress() override { return false; }
  bool arm() override {
    log.emplace_back("arm");
    return quiet;
  }
  int poll_fd() const override {
    log.emplace_back("poll_fd");
    return bell.get();
  }
  Fd bell{::eventfd(1, EFD_CLOEXEC)};  // already rung: no sleep lasts
  bool quiet = true;
  mutable Log log;
};

TEST(Sleeper, ArmsASourceBeforeItsDescriptorIsUsed) {
  Source source;
  Sleeper sleeper;
  ASSERT_TRUE(sleeper.add(source));
  EXPECT_TRUE(sleeper.sleep(std::chrono::seconds(20)));
  EXPECT_EQ(source.log, (Log{"arm", "poll_fd"}));
}

TEST(Sleeper, RefusesToSleepWhereSomethingMovesNow) {
  Source source;
  source.quiet = false;
  Sleeper sleeper;
  EXPECT_FALSE(sleeper.add(source));
  EXPECT_EQ(source.log, Log{"arm"});
}

TEST(Sleeper, ReportsWhetherTheFirstOneWoke) {
  Source source;
  const Fd silent(::eventfd(0, EFD_CLOEXEC));
  Sleeper sleeper;
  sleeper.add_fd(silent.get());
  ASSERT_TRUE(sleeper.add(source));
  EXPECT_FALSE(sleeper.sleep(std::chrono::seconds(20)));
}

TEST(WakeGroup, ArmsAllAndIsWokenByAny) {
  Source first, second;
  WakeGroup group;
  ASSERT_TRUE(group.add(first).ok());
  EXPECT_EQ(group.poll_fd(), first.bell.get());
  std::uint64_t rings = 0;
  ASSERT_EQ(::read(first.bell.get(), &rings, sizeof(rings)), 8);
  ASSERT_TRUE(group.add(second).ok());
  first.log = second.log = {};
  Sleeper sleeper;
  ASSERT_TRUE(sleeper.add(group));
  EXPECT_EQ(first.log, Log{"arm"});
  EXPECT_EQ(second.log, Log{"arm"});
  EXPECT_TRUE(sleeper.sleep(std::chrono::seconds(20)));  // woken by the second one's bell
  second.quiet = false;
  EXPECT_FALSE(sleeper.add(group));
}

TEST(Proxy, ArmsItsTasksBeforeItNaps) {
  Source first, second;
  gpu::Proxy proxy;
  ASSERT_TRUE(proxy.open().ok());
  proxy.add(first);
  proxy.add(second);
  EXPECT_FALSE(proxy.nap(std::chrono::seconds(20)));
  EXPECT_EQ(first.log, (Log{"arm", "poll_fd"}));
  first.quiet = false;
  EXPECT_FALSE(proxy.nap(std::chrono::seconds(20)));
  EXPECT_EQ(first.log, (Log{"arm", "poll_fd", "arm"}));
  EXPECT_EQ(second.log, (Log{"arm", "poll_fd"}));
}

}  // namespace
}  // namespace rondo::net
