// SPDX-License-Identifier: Apache-2.0
// rondo doctor --self-test on a busy machine: all links are slower than promised, and those of one
// rank are also slower than all others.
#include <gtest/gtest.h>

#include <string>

#include "bench/cli/self_test.h"
#include "bench/self_test.h"

namespace rondo::cli {
namespace {

// Hosts of one rank, of which all links have 0.35 GB/s, those of the last rank `gbs_of_last`.
bench::SelfTestResult busy_hosts(int hosts, double gbs_of_last) {
  bench::SelfTestResult result;
  for (int r = 0; r < hosts; ++r) {
    bench::Rank rank;
    rank.rank = r;
    rank.host = "host" + std::to_string(r);
    rank.device = "host memory";
    result.ranks.push_back(rank);
  }
  for (int from = 0; from < hosts; ++from)
    for (int to = from + 1; to < hosts; ++to) {
      bench::LinkRate link;
      link.from = from, link.to = to, link.across = true;
      link.gbs = to == hosts - 1 ? gbs_of_last : 0.35;
      link.promised_gbs = 3.4;
      result.links.push_back(link);
    }
  result.ways.push_back({"all_reduce", "ring", 100, 0, 0, 0, 0});
  result.of_ranks = {packed({{Verdict::kWarning, "load", "23 on 2 CPUs", ""}})};
  return result;
}

TEST(SlowLinksOfABusyMachine, AreThoseOfTheRankThatIsSlowerThanAllOthers) {
  std::string of_rank, of_others;
  for (const Finding& finding : findings_of(busy_hosts(4, 0.05))) {
    if (finding.verdict == Verdict::kProblem && finding.subject == "links of rank 3")
      of_rank = finding.text;
    if (finding.verdict == Verdict::kWarning && finding.subject == "links across hosts")
      of_others = finding.text;
  }
  EXPECT_TRUE(of_rank.starts_with(
      "all 3 links of rank 3 (host host3) to other hosts are slow, at most 0.05 GB/s; "))
      << of_rank;
  EXPECT_TRUE(
      of_others.starts_with("all 3 other links are slow: 0.35 to 0.35 GB/s; the cost model"))
      << of_others;
}

TEST(SlowLinksOfABusyMachine, AreAllWhereNoRankIsSlower) {
  int slow = 0;
  for (const Finding& finding : findings_of(busy_hosts(4, 0.35)))
    if (finding.text.starts_with("all 6 links are slow")) ++slow;
  EXPECT_EQ(slow, 1);
}

}  // namespace
}  // namespace rondo::cli
