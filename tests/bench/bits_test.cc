// SPDX-License-Identifier: Apache-2.0
// --bits: what it observes of sums that are known to change, and not to change; its texts.
#include "bench/bits.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace rondo::bench {
namespace {

TEST(BenchBits, OrderedSumsNeverChangeAndARingDoes) {
  const auto found = observe_bits(ncclFloat32, 4);
  ASSERT_TRUE(found.ok()) << found.error().text;
  std::size_t by_algorithm = 0;
  for (const BitsRow& row : rows_of(*found)) {
    EXPECT_EQ(row.ordered, 1u) << row.what;
    EXPECT_GE(row.plain, 1u) << row.what;
    if (row.what == "algorithm (NCCL_ALGO)") by_algorithm = row.plain;
  }
  EXPECT_GE(by_algorithm, 2u);
}

TEST(BenchBits, QuestionsCompareTheResultsOfTheLargestJobAndThoseOfAllNumbersOfRanks) {
  BitsFound found;
  found.plain[2] = {{"ranks", {"a"}}, {"owner", {"a", "b", "c"}}};
  found.plain[4] = {{"ranks", {"b"}}, {"owner", {"a", "b"}}};
  found.ordered[2] = found.ordered[4] = {{"ranks", {"a"}}};
  const std::vector<BitsRow> rows = rows_of(found);
  EXPECT_EQ(rows.front().what, "number of ranks");
  EXPECT_EQ(rows.front().plain, 2u);
  EXPECT_EQ(rows.front().ordered, 1u);
  const std::string table = bits_table(rows, ncclFloat32, 4);
  EXPECT_NE(table.find("| number of ranks | yes, 2 results | no |"), std::string::npos) << table;
  EXPECT_NE(table.find("| rank that owns the part (reduce_scatter) | yes, 2 results | - |"),
            std::string::npos)
      << table;
  const Json json = Json::parse(bits_json(rows, ncclFloat32, 4));
  EXPECT_EQ(json.at("changes").elements().size(), rows.size());
  EXPECT_EQ(json.at("changes").elements()[0].at("results").number(), 2);
}

}  // namespace
}  // namespace rondo::bench
