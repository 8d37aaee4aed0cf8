// SPDX-License-Identifier: Apache-2.0
// What a plugin does in its first call, and the program's signal handlers after it.
#include "transport/plugin/library.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <stdexcept>

namespace rondo::plugin {
namespace {

constexpr int kGuarded[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

void own_handler(int) {}

// The program handles the signals itself.
class CrashGuard : public testing::Test {
 protected:
  CrashGuard() {
    struct sigaction own {};
    own.sa_handler = own_handler;
    for (std::size_t i = 0; i < std::size(kGuarded); ++i) sigaction(kGuarded[i], &own, &before_[i]);
  }
  ~CrashGuard() override {
    for (std::size_t i = 0; i < std::size(kGuarded); ++i)
      sigaction(kGuarded[i], &before_[i], nullptr);
  }
  static void expect_own_handlers() {
    for (const int signal : kGuarded) {
      struct sigaction now {};
      sigaction(signal, nullptr, &now);
      EXPECT_EQ(now.sa_handler, own_handler) << strsignal(signal);
    }
  }

 private:
  struct sigaction before_[std::size(kGuarded)]{};
};

TEST_F(CrashGuard, ReturnsTheSignalOfACrash) {
  EXPECT_EQ(crash_of([] {}), 0);
  expect_own_handlers();
  for (const int signal : kGuarded) {
    EXPECT_EQ(crash_of([signal] { raise(signal); }), signal);
    expect_own_handlers();
  }
}

TEST_F(CrashGuard, AnExceptionPassesAndTheHandlersOfTheProgramAreBack) {
  EXPECT_THROW((void)crash_of([] { throw std::runtime_error("in init"); }), std::runtime_error);
  expect_own_handlers();
  EXPECT_EQ(crash_of([] {}), 0) << "it is free for the next one";
}

}  // namespace
}  // namespace rondo::plugin
