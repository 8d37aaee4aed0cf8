// SPDX-License-Identifier: Apache-2.0
// A slow or lossy network between hosts of a job is named, and none where all links are alike.
#include "collectives/status/slow_links.h"

#include <gtest/gtest.h>

namespace rondo::test {
namespace {

// A job with a process on each host and links between all of them, all of one rate.
JobView job_of_hosts(int hosts, double rate) {
  JobView view;
  for (int from = 0; from < hosts; ++from) {
    ProcessView process{.pid = 100 + from, .host = fmt::format("node{}", from)};
    for (int to = 0; to < hosts; ++to)
      if (to != from)
        process.links.push_back({.host = fmt::format("node{}", to),
                                 .own = fmt::format("10.0.0.{}", from),
                                 .address = fmt::format("10.0.0.{}", to),
                                 .sent_bytes = 1 << 20,
                                 .segments = 10'000,
                                 .resent_segments = 30,
                                 .bytes_per_second = rate,
                                 .newest_per_second = rate});
    view.processes.push_back(std::move(process));
  }
  return view;
}

LinkView& link_of(JobView& view, std::size_t from, std::size_t to) {
  return view.processes[from].links[to < from ? to : to - 1];
}

TEST(SlowLinks, NamesNoneWhereLinksAreAlikeOrTheirRatesUnknown) {
  EXPECT_TRUE(slow_links(job_of_hosts(4, 1e9)).empty());
  JobView view = job_of_hosts(3, 1e9);
  link_of(view, 0, 1).bytes_per_second = 0;
  link_of(view, 1, 2).bytes_per_second = 0.3e9;
  link_of(view, 2, 0).bytes_per_second = 0.1e9;   // a connection with long gaps
  link_of(view, 1, 0).newest_per_second = 0.1e9;  // or one that has just begun
  EXPECT_TRUE(slow_links(view).empty());
  EXPECT_TRUE(slow_links(JobView()).empty());
}

TEST(SlowLinks, NamesALinkAtATenthOfTheRateOfTheOthers) {
  JobView view = job_of_hosts(3, 120e6);
  link_of(view, 2, 0).bytes_per_second = link_of(view, 2, 0).newest_per_second = 12e6;
  const auto found = slow_links(view);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text,
            "the network from node2 (10.0.0.2) to node0 (10.0.0.0) is slow: 12.0 MB/s, other links "
            "120.0 MB/s");
}

TEST(SlowLinks, NamesTheHostWhoseLinksAreAllSlow) {
  JobView view = job_of_hosts(4, 120e6);
  for (const std::size_t to : {0, 1, 2})
    link_of(view, 3, to).bytes_per_second = link_of(view, 3, to).newest_per_second = 12e6;
  const auto found = slow_links(view);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].from, "node3");
  EXPECT_EQ(found[0].to, "");
  EXPECT_EQ(found[0].text,
            "the network from node3 to all other hosts is slow: 12.0 MB/s, other links 120.0 MB/s");
}

TEST(SlowLinks, NamesALinkThatLosesPackets) {
  JobView view = job_of_hosts(2, 0);
  link_of(view, 1, 0).resent_segments = 500;
  const auto found = slow_links(view);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text,
            "the network from node1 (10.0.0.1) to node0 (10.0.0.0) loses packets: 5.0 % of 10000 "
            "were sent again");
}

TEST(SlowLinks, NamesThePortOfAnRdmaLink) {
  JobView view;
  for (const char* from : {"node0", "node1"}) {
    ProcessView process{.pid = 100, .host = from};
    for (const char* port : {"mlx5_0:1", "mlx5_1:1"}) {
      const bool slow = process.host == "node1" && std::string_view(port) == "mlx5_1:1";
      process.links.push_back({.host = process.host == "node0" ? "node1" : "node0",
                               .own = port,
                               .bytes_per_second = slow ? 2e9 : 24e9,
                               .newest_per_second = slow ? 2e9 : 24e9});
    }
    view.processes.push_back(std::move(process));
  }
  const auto found = slow_links(view);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text,
            "the network from node1 (mlx5_1:1) to node0 is slow: 2000.0 MB/s, other links 24000.0 "
            "MB/s");
}

}  // namespace
}  // namespace rondo::test
