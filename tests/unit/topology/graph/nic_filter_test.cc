// SPDX-License-Identifier: Apache-2.0
// NCCL_IB_HCA's grammar.
#include "topology/graph/nearness.h"

#include <gtest/gtest.h>

namespace rondo::topology {
namespace {

TEST(NicFilter, AdmitsByPrefixNameAndPort) {
  const struct {
    const char* text;
    const char* device;
    int port;
    bool admitted;
  } kRows[] = {
      {"", "mlx5_0", 1, true},
      {"^", "mlx5_0", 1, true},
      {"mlx5", "mlx5_10", 1, true},
      {"mlx5_1", "mlx5_10", 1, true},
      {"=mlx5_1", "mlx5_10", 1, false},
      {"=mlx5_1", "mlx5_1", 2, true},
      {"mlx5_1:2", "mlx5_1", 1, false},
      {"mlx5_1:2", "mlx5_1", 2, true},
      {"mlx5_1:2", "mlx5_1", 0, true},  // port unknown
      {"mlx5_1:2:0:1", "mlx5_1", 2, true},
      {"mlx5_0,mlx5_3", "mlx5_3", 1, true},
      {"mlx5_0,mlx5_3", "mlx5_2", 1, false},
      {"^mlx5_1", "mlx5_10", 1, false},
      {"^=mlx5_1", "mlx5_10", 1, true},
      {"^mlx5_0:1", "mlx5_0", 2, true},
  };
  for (const auto& row : kRows) {
    const auto filter = NicFilter::parse(row.text);
    ASSERT_TRUE(filter.ok()) << row.text;
    EXPECT_EQ(filter->admits(row.device, row.port), row.admitted)
        << row.text << " of " << row.device << ":" << row.port;
  }
}

TEST(NicFilter, RefusesWhatIsNoName) {
  for (const char* text : {",", "mlx5_0,,mlx5_1", ":1", "mlx5_0:x", "mlx5_0:0", "mlx5_0:256"}) {
    const auto refused = NicFilter::parse(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.code(), StatusCode::kInvalidUsage);
    EXPECT_NE(refused.error().text.find(text), std::string::npos);
  }
}

}  // namespace
}  // namespace rondo::topology
