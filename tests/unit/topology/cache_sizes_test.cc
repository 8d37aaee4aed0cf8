// SPDX-License-Identifier: Apache-2.0
// Cache sizes from the files of simulated machines, and of this machine.

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "topology/cpu_budget.h"
#include "topology/host_topology.h"

namespace rondo::topology {
namespace {

class CacheFiles : public testing::Test {
 protected:
  void cache(int index, int level, const std::string& size) {
    const std::string folder = "sys/devices/system/cpu/cpu" +
                               std::to_string(affinity_cpus().front()) + "/cache/index" +
                               std::to_string(index);
    folder_.file(folder + "/level", std::to_string(level) + "\n");
    folder_.file(folder + "/size", size + "\n");
  }
  const test::TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(CacheFiles, GiveTheCacheOfACoreAndTheSharedOne) {
  cache(0, 1, "32K");
  cache(1, 1, "32K");
  cache(2, 2, "1280K");
  cache(3, 3, "55296K");
  const CacheSizes sizes = cache_sizes(root_);
  EXPECT_EQ(sizes.core_bytes, 1280u << 10);
  EXPECT_EQ(sizes.shared_bytes, 55296u << 10);
}

TEST_F(CacheFiles, ThatAreMissingOrOddAreIgnored) {
  EXPECT_EQ(cache_sizes(root_).core_bytes, 0u);
  cache(0, 1, "32K");
  cache(1, 2, "much");
  EXPECT_EQ(cache_sizes(root_).core_bytes, 0u);
  EXPECT_EQ(cache_sizes(root_).shared_bytes, 0u);
}

TEST(CacheSizes, AreThoseOfHwlocOnThisMachine) {
  const CacheSizes sizes = cache_sizes();
  const auto host = discover();
  ASSERT_TRUE(host.ok());
  if (sizes.core_bytes != 0 && host->l2_bytes != 0) {
    EXPECT_EQ(sizes.core_bytes, host->l2_bytes);
  }
  if (sizes.shared_bytes != 0 && host->l3_bytes != 0) {
    EXPECT_EQ(sizes.shared_bytes, host->l3_bytes);
  }
}

}  // namespace
}  // namespace rondo::topology
