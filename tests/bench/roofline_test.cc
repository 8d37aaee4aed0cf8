// SPDX-License-Identifier: Apache-2.0
// The roofline's arithmetic: bytes over the links between devices and over the network between
// hosts, and the limit that applies.
#include "bench/roofline.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "bench/placement.h"

namespace rondo::bench {
namespace {

constexpr std::size_t kBytes = 4096;  // the size in the table
constexpr double kWhole = kBytes, kPart = kWhole / 4;

bench::Test test_of(Kind kind, int root = 0) {
  bench::Test test;
  test.kind = kind, test.type = ncclFloat, test.root = root;
  return test;
}

struct Expected {
  Kind kind;
  int root;
  std::vector<int> places;  // by rank, of four
  std::vector<Crossing> over;
  double all;
};

class CrossingsOf : public testing::TestWithParam<Expected> {};

TEST_P(CrossingsOf, AreWhatOnePlaceHasAndAnotherOneNeeds) {
  const Expected& expected = GetParam();
  const std::vector<int> one_area(4, 0);
  const Crossings found =
      crossings(expected.places, one_area, test_of(expected.kind, expected.root), 1, kBytes);
  ASSERT_EQ(found.of_place.size(), expected.over.size());
  for (std::size_t p = 0; p < found.of_place.size(); ++p) {
    EXPECT_DOUBLE_EQ(found.of_place[p].out, expected.over[p].out) << "out of place " << p;
    EXPECT_DOUBLE_EQ(found.of_place[p].in, expected.over[p].in) << "into place " << p;
  }
  EXPECT_DOUBLE_EQ(found.all, expected.all);
}

const std::vector<int> kApart{0, 1, 2, 3}, kPairs{0, 0, 1, 1}, kOne{0, 0, 0, 0};
std::vector<Crossing> each(double out, double in, std::size_t places = 4) {
  return std::vector<Crossing>(places, {out, in});
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CrossingsOf,
    testing::Values(Expected{Kind::kAllReduce, 0, kApart, each(kWhole, kWhole), 6 * kWhole},
                    Expected{Kind::kAllReduce, 0, kPairs, each(kWhole, kWhole, 2), 2 * kWhole},
                    Expected{Kind::kAllReduce, 0, kOne, each(0, 0, 1), 0},
                    Expected{Kind::kAllGather, 0, kApart, each(kPart, 3 * kPart), 12 * kPart},
                    Expected{Kind::kAllGather, 0, kPairs, each(2 * kPart, 2 * kPart, 2), 4 * kPart},
                    Expected{Kind::kReduceScatter, 0, kApart, each(3 * kPart, kPart), 12 * kPart},
                    Expected{Kind::kReduceScatter, 0, kPairs, each(2 * kPart, 2 * kPart, 2),
                             4 * kPart},
                    Expected{Kind::kReduceScatter, 0, kOne, each(0, 0, 1), 0},
                    Expected{Kind::kBroadcast, 1, kPairs, {{kWhole, 0}, {0, kWhole}}, kWhole},
                    Expected{Kind::kReduce, 3, kPairs, {{kWhole, 0}, {0, kWhole}}, kWhole},
                    Expected{Kind::kReduce, 3, kOne, each(0, 0, 1), 0},
                    Expected{Kind::kAllToAll, 0, kApart, each(3 * kPart, 3 * kPart), 12 * kPart},
                    Expected{Kind::kAllToAll, 0, kPairs, each(4 * kPart, 4 * kPart, 2), 8 * kPart},
                    Expected{Kind::kGather,
                             0,
                             kApart,
                             {{0, 3 * kPart}, {kPart, 0}, {kPart, 0}, {kPart, 0}},
                             3 * kPart},
                    Expected{Kind::kScatter,
                             0,
                             kApart,
                             {{3 * kPart, 0}, {0, kPart}, {0, kPart}, {0, kPart}},
                             3 * kPart},
                    Expected{Kind::kSendRecv, 0, kPairs, each(kWhole, kWhole, 2), 2 * kWhole},
                    Expected{Kind::kBarrier, 0, kApart, each(0, 0), 0}),
    [](const auto& info) {
      const Expected& one = info.param;
      return std::string(bench::info(one.kind).name) + (one.places == kApart   ? "_apart"
                                                        : one.places == kPairs ? "_pairs"
                                                                               : "_together");
    });

// Of the traffic between two devices, the part that stays within their area.
TEST(CrossingsOfAreas, CountWhatStaysInAnAreaAndNoSums) {
  const std::vector<int> areas{0, 0, 1, 1};
  const auto of = [&](Kind kind, int root = 0) {
    return crossings(kApart, areas, test_of(kind, root), 1, kBytes);
  };
  for (const Kind kind : {Kind::kAllGather, Kind::kAllToAll}) {
    const Crossings found = of(kind);
    for (const Crossing& one : found.of_place) {
      EXPECT_DOUBLE_EQ(one.out, kPart) << info(kind).name;
      EXPECT_DOUBLE_EQ(one.in, kPart) << info(kind).name;
    }
    EXPECT_DOUBLE_EQ(found.all, 4 * kPart) << info(kind).name;
  }
  // Rank 1 sends to rank 0 in its area, and to two ranks in the other.
  const Crossings broadcast = of(Kind::kBroadcast, 1);
  EXPECT_DOUBLE_EQ(broadcast.of_place[1].out, kWhole);
  EXPECT_DOUBLE_EQ(broadcast.of_place[0].in, kWhole);
  EXPECT_DOUBLE_EQ(broadcast.of_place[2].in + broadcast.of_place[3].in, 0);
  // Each rank sends to the next one: 0 to 1 and 2 to 3 stay within an area.
  const Crossings messages = of(Kind::kSendRecv);
  EXPECT_DOUBLE_EQ(messages.of_place[0].out, kWhole);
  EXPECT_DOUBLE_EQ(messages.of_place[1].out, 0);
  EXPECT_DOUBLE_EQ(messages.of_place[3].in, kWhole);
  EXPECT_DOUBLE_EQ(messages.all, 2 * kWhole);
  EXPECT_DOUBLE_EQ(of(Kind::kAllReduce).all, 0);
  EXPECT_DOUBLE_EQ(of(Kind::kReduceScatter).of_place[0].out, 0);
}

std::vector<Rank> ranks_on(const std::vector<std::string>& bus_ids, double copy, double link) {
  std::vector<Rank> ranks;
  for (const std::string& id : bus_ids) {
    Rank rank;
    rank.rank = static_cast<int>(ranks.size());
    rank.host = "here", rank.bus_id = id, rank.copy_gbs = copy, rank.link_gbs = link;
    ranks.push_back(rank);
  }
  return ranks;
}

TEST(Roof, IsTheSlowerOfMemoryAndLinks) {
  const bench::Test test = test_of(Kind::kAllReduce);
  constexpr std::size_t bytes = 1 << 20;
  // Memory moves 2 bytes per byte of a call; a link moves 1.5 in each direction.
  const auto apart = [](double copy, double link) {
    return ranks_on({"0:1", "0:2", "0:3", "0:4"}, copy, link);
  };
  const Roof by_link = roof_of(apart(1000, 100), test, 1, bytes);
  EXPECT_EQ(by_link.of, "link");
  EXPECT_DOUBLE_EQ(by_link.us, 1.5 * bytes / 100e3);
  const Roof by_memory = roof_of(apart(100, 1000), test, 1, bytes);
  EXPECT_EQ(by_memory.of, "memory");
  EXPECT_DOUBLE_EQ(by_memory.us, 2.0 * bytes / 100e3);
  // Without a measurement there is no roofline.
  EXPECT_EQ(roof_of(apart(0, 0), test, 1, bytes).us, 0);
}

// Each process that sees one device numbers it 0.
TEST(Roof, DevicesOfOneNumberAreDistinguishedByTheirLocation) {
  const bench::Test test = test_of(Kind::kBroadcast);
  constexpr std::size_t bytes = 1 << 20;
  const Roof apart = roof_of(ranks_on({"0:1", "0:2"}, 1000, 10), test, 1, bytes);
  EXPECT_EQ(apart.of, "link");
  const Roof together = roof_of(ranks_on({"0:1", "0:1"}, 1000, 10), test, 1, bytes);
  EXPECT_EQ(together.of, "memory");
}

// hosts[h]: the number of its ranks, each on its own device, and the rate of its network.
struct HostOf {
  int ranks;
  double network_gbs;
};
std::vector<Rank> ranks_of_hosts(const std::vector<HostOf>& hosts, double link = 0) {
  std::vector<Rank> ranks;
  for (std::size_t h = 0; h < hosts.size(); ++h)
    for (int i = 0; i < hosts[h].ranks; ++i) {
      Rank rank;
      rank.rank = static_cast<int>(ranks.size());
      rank.host = "host" + std::to_string(h), rank.bus_id = "0:" + std::to_string(i);
      rank.copy_gbs = 1e6, rank.link_gbs = link, rank.network_gbs = hosts[h].network_gbs;
      ranks.push_back(rank);
    }
  return ranks;
}

struct ByNetwork {
  const char* name;
  Kind kind;
  int root;
  std::vector<HostOf> hosts;
  double us;  // for 1.2 MB
};
constexpr std::size_t kMillions = 1'200'000;
class RoofOfHosts : public testing::TestWithParam<ByNetwork> {};

TEST_P(RoofOfHosts, IsWhatTheBusiestNetworkTakes) {
  const ByNetwork& of = GetParam();
  const Roof roof = roof_of(ranks_of_hosts(of.hosts), test_of(of.kind, of.root), 1, kMillions);
  EXPECT_EQ(roof.of, "network");
  EXPECT_NEAR(roof.us, of.us, 1e-6 * of.us);
}

// 1 GB/s is 1000 bytes per microsecond. Each part is 1.2 MB divided by the number of ranks.
const std::vector<HostOf> kTwo{{2, 10}, {2, 10}}, kThree{{2, 10}, {2, 10}, {2, 10}},
    kUneven{{1, 10}, {3, 10}}, kSlow{{2, 10}, {2, 2}}, kHalfKnown{{2, 0}, {2, 10}};
INSTANTIATE_TEST_SUITE_P(
    Kinds, RoofOfHosts,
    testing::Values(
        // 2 (h - 1) / h of the bytes in each direction.
        ByNetwork{"all_reduce_2", Kind::kAllReduce, 0, kTwo, 120},
        ByNetwork{"all_reduce_3", Kind::kAllReduce, 0, kThree, 160},
        ByNetwork{"all_reduce_uneven", Kind::kAllReduce, 0, kUneven, 120},
        ByNetwork{"all_reduce_slow", Kind::kAllReduce, 0, kSlow, 600},
        // The parts that a host lacks must enter it: half of all, two thirds, three quarters.
        ByNetwork{"all_gather_2", Kind::kAllGather, 0, kTwo, 60},
        ByNetwork{"all_gather_3", Kind::kAllGather, 0, kThree, 80},
        ByNetwork{"all_gather_uneven", Kind::kAllGather, 0, kUneven, 90},
        ByNetwork{"all_gather_slow", Kind::kAllGather, 0, kSlow, 300},
        // Each of a host's ranks has a part for each rank of the other hosts: 2 x 2, 2 x 4, 1 x 3
        // parts.
        ByNetwork{"all_to_all_2", Kind::kAllToAll, 0, kTwo, 120},
        ByNetwork{"all_to_all_3", Kind::kAllToAll, 0, kThree, 160},
        ByNetwork{"all_to_all_uneven", Kind::kAllToAll, 0, kUneven, 90},
        // Once to each host, from the root or from a host that already has the data.
        ByNetwork{"broadcast_2", Kind::kBroadcast, 3, kTwo, 120},
        ByNetwork{"broadcast_3", Kind::kBroadcast, 3, kThree, 120},
        ByNetwork{"broadcast_slow", Kind::kBroadcast, 0, kSlow, 600},
        // The last rank of a host sends to the first one of the next.
        ByNetwork{"send_recv_2", Kind::kSendRecv, 0, kTwo, 120},
        ByNetwork{"send_recv_3", Kind::kSendRecv, 0, kThree, 120},
        ByNetwork{"send_recv_uneven", Kind::kSendRecv, 0, kUneven, 120},
        // If only one host's rate is known, it limits what that host sends and receives.
        ByNetwork{"all_gather_half_known", Kind::kAllGather, 0, kHalfKnown, 60}),
    [](const auto& info) { return std::string(info.param.name); });

// In a sum, a slow host must move its own bytes once in each direction; others can do the rest.
TEST(Roof, OfASumAsksNoMoreOfASlowHostThanItsOwnPart) {
  const std::vector<HostOf> hosts{{1, 100}, {1, 100}, {1, 10}};
  const Roof roof = roof_of(ranks_of_hosts(hosts), test_of(Kind::kAllReduce), 1, kMillions);
  EXPECT_DOUBLE_EQ(roof.us, 120);
}

TEST(Roof, OfHostsWhoseNetworkIsNotKnownIsNotByTheNetwork) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kAllToAll, Kind::kSendRecv}) {
    const Roof roof = roof_of(ranks_of_hosts({{2, 0}, {2, 0}}), test_of(kind), 1, kMillions);
    EXPECT_EQ(roof.of, "memory") << info(kind).name;
  }
  // A network rate without another host has no effect.
  EXPECT_EQ(roof_of(ranks_of_hosts({{4, 10}}), test_of(Kind::kAllGather), 1, kMillions).of,
            "memory");
}

// With several hosts, a link limits only traffic that stays in a host and is not a sum.
TEST(Roof, OfSeveralHostsMayBeALinks) {
  const std::vector<Rank> ranks = ranks_of_hosts({{3, 100}, {3, 100}}, 1);
  // Two parts, each a sixth of the data, from the host's other devices.
  const Roof gathered = roof_of(ranks, test_of(Kind::kAllGather), 1, kMillions);
  EXPECT_EQ(gathered.of, "link");
  EXPECT_NEAR(gathered.us, 400, 1e-3);
  const Roof summed = roof_of(ranks, test_of(Kind::kAllReduce), 1, kMillions);
  EXPECT_EQ(summed.of, "network");
  EXPECT_NEAR(summed.us, 12, 1e-3);
}

TEST(Speeds, ReportOnceWhatTheNetworkPassesAndByWhom) {
  const auto lines = [](const std::vector<HostOf>& hosts) {
    std::istringstream text(speeds_of(ranks_of_hosts(hosts)));
    std::string found;
    for (std::string line; std::getline(text, line);)
      if (!line.starts_with("#  Copies inside device ")) found += line + "\n";
    return found;
  };
  EXPECT_EQ(lines({{2, 96}, {1, 96}}),
            "#  Network of a host: 96 GB/s each way by the topology's ports: %roof is of that "
            "too\n");
  EXPECT_EQ(lines({{2, 96}, {1, 24}, {1, 0}}),
            "#  Network of a host: 24 to 96 GB/s each way by the topology's ports, 1 of 3 hosts "
            "not known: %roof is of that too\n");
  EXPECT_EQ(lines({{2, 0}, {2, 0}}),
            "#  No rate of the network between hosts is known: %roof leaves it out\n");
  EXPECT_EQ(lines({{4, 96}}), "") << "there is one host";
  std::vector<Rank> on_hosts = ranks_of_hosts({{1, 0}, {1, 0}});
  for (Rank& rank : on_hosts) rank.copy_gbs = 0;
  EXPECT_EQ(speeds_of(on_hosts), "") << "host memory, or a plain table";
}

}  // namespace
}  // namespace rondo::bench
