// SPDX-License-Identifier: Apache-2.0
// libibverbs is found when it is requested, and an error text reports its absence.
#include "transport/verbs/presence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef RONDO_VERBS
#include "transport/verbs/ibverbs/ibverbs.h"
#endif

namespace rondo::verbs {
namespace {

using testing::HasSubstr;

#ifdef RONDO_VERBS
TEST(Ibverbs, WhereItIsNotInstalledNamesWhatToInstall) {
  const auto loaded = Ibverbs::load_from("libibverbs-that-is-not-there.so.1");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().text, HasSubstr("libibverbs-that-is-not-there.so.1"));
  EXPECT_THAT(loaded.error().text, HasSubstr("install libibverbs1"));
}

TEST(Ibverbs, OfALibraryThatIsAnotherNamesTheFirstFunctionThatIsMissing) {
  const auto loaded = Ibverbs::load_from("libc.so.6");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().text, HasSubstr("libc.so.6 has no function ibv_get_device_list"));
}

TEST(Ibverbs, IsLoadedOnceAndListsTheDevices) {
  const auto first = Ibverbs::load();
  if (!first.ok()) GTEST_SKIP() << first.error().text;
  const auto second = Ibverbs::load();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_NE((*first)->modify_qp, nullptr);
  const auto devices = offered_devices();
  EXPECT_TRUE(devices.ok()) << devices.error().text;  // none, on most machines
}
#else
TEST(Ibverbs, OfABuildWithoutItsHeaderIsReported) {
  const auto devices = offered_devices();
  ASSERT_FALSE(devices.ok());
  EXPECT_THAT(devices.error().text, HasSubstr("built without InfiniBand"));
}
#endif

}  // namespace
}  // namespace rondo::verbs
