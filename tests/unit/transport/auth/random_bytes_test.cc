// SPDX-License-Identifier: Apache-2.0
// Random bytes if getrandom is forbidden, as in some sandboxes.

#include <gtest/gtest.h>

#include <string>
#include <system_error>

#include "base/process.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"
#include "transport/auth/hmac.h"

namespace rondo::auth {
namespace {

using test::in_child;

// What a child says that draws two digests. files_too: it can open no file either.
std::string digests_where_refused(bool files_too) {
  return in_child([&]() -> std::string {
    const unsigned more = files_too ? SYS_openat : SYS_getrandom;
    if (!test::refuse_calls({SYS_getrandom, more})) return test::kNoFilters;
    try {
      return random_digest() == random_digest() ? "equal" : "different";
    } catch (const std::system_error&) {
      return "an error";
    }
  });
}

TEST(RandomBytes, ComeFromTheDeviceWhereTheCallIsRefused) {
  const std::string outcome = digests_where_refused(false);
  if (outcome == test::kNoFilters) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "different");
}

TEST(RandomBytes, AreAnErrorWhereThereAreNone) {
  const std::string outcome = digests_where_refused(true);
  if (outcome == test::kNoFilters) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "an error");
}

// A forked child draws a new identity, here without the call.
TEST(RandomBytes, GiveAProcessItsIdentityWhereTheCallIsRefused) {
  const ProcessId parent = this_process();
  const std::string outcome = in_child([&]() -> std::string {
    if (!test::refuse_calls({SYS_getrandom})) return test::kNoFilters;
    return this_process() == parent ? "the parent's" : "its own";
  });
  if (outcome == test::kNoFilters) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "its own");
}

}  // namespace
}  // namespace rondo::auth
