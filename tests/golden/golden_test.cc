// SPDX-License-Identifier: Apache-2.0
// The tool that compares golden files: what it masks, and that it can fail.
#include "tests/golden/golden.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

TEST(Golden, MasksWhatOnlyOneRunHas) {
  EXPECT_EQ(masked("rank 1 (pid 4711 on host a) has ended after 0.25 s"),
            "rank 1 (pid <pid> on <host>) has ended after <s>");
  EXPECT_EQ(masked("process 12 at 10.0.0.7:4000 and [fe80::1%eth0]:80, 0x7f00aa, 12.5 ms"),
            "process <pid> at <address> and <address>, <pointer>, <ms>");
  EXPECT_EQ(masked("rank 3 of 16: 1048576 bytes"), "rank 3 of 16: 1048576 bytes");
}

TEST(Golden, FailsWhereALineIsAnotherOrMissing) {
  EXPECT_NONFATAL_FAILURE(expect_golden("tool.txt", "one line\nanother line\n"), "line 2");
  EXPECT_NONFATAL_FAILURE(expect_golden("tool.txt", "one line\n"), "no more lines");
  EXPECT_FATAL_FAILURE(expect_golden("nowhere.txt", ""), "RONDO_GOLDEN=write");
  expect_golden("tool.txt", "one line\nthe second line\n");
}

TEST(GoldenRows, ShowEachRowThatIsAnotherNewOrGoneAndNoOther) {
  const std::string header = "layout,size,way";
  const std::vector<std::string> golden = {"two,4,ring", "two,8,tree"};
  expect_golden_rows("tool.csv", header, golden, 2);
  const auto now = [&](std::vector<std::string> rows) {
    expect_golden_rows("tool.csv", header, rows, 2);
  };
  EXPECT_NONFATAL_FAILURE(now({"two,4,ring", "two,8,ring"}),
                          "golden, two,8,tree\nnow,    two,8,ring");
  EXPECT_NONFATAL_FAILURE(now({"two,4,ring"}), "golden, two,8,tree\nnow,    (no such row)");
  EXPECT_NONFATAL_FAILURE(now({"two,4,ring", "two,6,x", "two,8,tree"}),
                          "(no such row)\nnow,    two,6");
  EXPECT_NONFATAL_FAILURE(expect_golden_rows("tool.csv", "layout", golden, 2), header);
}

TEST(GoldenSets, TakeEveryKnownTextOfASectionAndNoOther) {
  GoldenSets sets("tool_sets.txt", "hosts");
  sets.expect("two", "one line");
  sets.expect("two", "several\n\n  lines");
  sets.expect("another", "-- dashes inside");
  EXPECT_TRUE(sets.knows("two", "one line"));
  EXPECT_FALSE(sets.knows("another", "one line"));
  EXPECT_FALSE(sets.knows("two", "of threads only"));
  EXPECT_NONFATAL_FAILURE(sets.expect("another", "one line"), "another");
  EXPECT_NONFATAL_FAILURE(sets.expect("two", "several"), "several\n\n  lines");
  EXPECT_NONFATAL_FAILURE(sets.expect("none", "one line"), "RONDO_GOLDEN=write");
  GoldenSets("tool_sets.txt", "threads").expect("two", "of threads only");
}

TEST(GoldenCounts, MayFallAndMustNotRise) {
  GoldenCounts counts("tool_counts.txt", "one_rank");
  counts.expect("making, process 0", {{"copy", 3}, {"launch", 1}});
  counts.expect("making, process 0", {{"copy", 2}});
  EXPECT_NONFATAL_FAILURE(counts.expect("making, process 0", {{"copy", 4}}), "copy");
  EXPECT_NONFATAL_FAILURE(counts.expect("making, process 0", {{"wait", 1}}), "wait");
  EXPECT_NONFATAL_FAILURE(counts.expect("ending", {{"copy", 1}}), "ending");
  GoldenCounts("tool_counts.txt", "one_rank_more").expect("making, process 0", {{"copy", 7}});
}

// Writes one layout's part of a file and leaves the others.
TEST(Golden, WritesOneLayoutsPart) {
  const TemporaryFolder folder;
  const std::string sets = folder.path() + "/sets", counts = folder.path() + "/counts";
  const auto write = [&](const char* layout, const char* text, std::uint64_t launches) {
    const WithEnvironment writes("RONDO_GOLDEN", "write");
    GoldenSets(sets, layout).expect("two", text);
    GoldenCounts(counts, layout).expect("making", {{"launch", launches}});
  };
  write("hosts", "both", 2);
  write("threads", "of threads", 3);
  write("threads", "both", 4);
  for (const char* layout : {"hosts", "threads"}) {
    GoldenSets written(sets, layout);
    written.expect("two", "both");
    EXPECT_FALSE(written.knows("two", "of threads"));
  }
  GoldenCounts(counts, "threads").expect("making", {{"launch", 4}});
  EXPECT_NONFATAL_FAILURE(GoldenCounts(counts, "hosts").expect("making", {{"launch", 3}}),
                          "launch");
}

}  // namespace
}  // namespace rondo::test
