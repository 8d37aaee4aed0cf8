// The roofline's arithmetic: what has to pass over the links between devices, and which limit
// counts.
#include "bench/roofline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rondo::bench {
namespace {

constexpr std::size_t kBytes = 4096;  // what the table calls size
constexpr double kWhole = kBytes, kPart = kBytes / 4;

struct Expected {
  Kind kind;
  int root;
  std::vector<int> devices;  // by rank, of four
  std::vector<LinkBytes> over;
};

class LinkBytesOf : public testing::TestWithParam<Expected> {};

TEST_P(LinkBytesOf, IsWhatOneDeviceHasAndAnotherOneNeeds) {
  const Expected& expected = GetParam();
  bench::Test test;
  test.kind = expected.kind, test.type = ncclFloat, test.root = expected.root;
  const std::vector<LinkBytes> found = link_bytes(expected.devices, test, 1, kBytes);
  ASSERT_EQ(found.size(), expected.over.size());
  for (std::size_t d = 0; d < found.size(); ++d) {
    EXPECT_DOUBLE_EQ(found[d].out, expected.over[d].out) << "out of device " << d;
    EXPECT_DOUBLE_EQ(found[d].in, expected.over[d].in) << "into device " << d;
  }
}

const std::vector<int> kApart{0, 1, 2, 3}, kPairs{0, 0, 1, 1}, kOne{0, 0, 0, 0};
std::vector<LinkBytes> each(double out, double in, std::size_t devices = 4) {
  return std::vector<LinkBytes>(devices, {out, in});
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LinkBytesOf,
    testing::Values(
        Expected{Kind::kAllReduce, 0, kApart, each(1.5 * kWhole, 1.5 * kWhole)},
        Expected{Kind::kAllReduce, 0, kPairs, each(kWhole, kWhole, 2)},
        Expected{Kind::kAllReduce, 0, kOne, each(0, 0, 1)},
        Expected{Kind::kAllGather, 0, kApart, each(kPart, 3 * kPart)},
        Expected{Kind::kAllGather, 0, kPairs, each(2 * kPart, 2 * kPart, 2)},
        Expected{Kind::kReduceScatter, 0, kApart, each(3 * kPart, kPart)},
        Expected{Kind::kReduceScatter, 0, kPairs, each(2 * kPart, 2 * kPart, 2)},
        Expected{Kind::kReduceScatter, 0, kOne, each(0, 0, 1)},
        Expected{Kind::kBroadcast, 1, kPairs, {{kWhole, 0}, {0, kWhole}}},
        Expected{Kind::kReduce, 3, kPairs, {{kWhole, 0}, {0, kWhole}}},
        Expected{Kind::kReduce, 3, kOne, each(0, 0, 1)},
        Expected{Kind::kAllToAll, 0, kApart, each(3 * kPart, 3 * kPart)},
        Expected{Kind::kAllToAll, 0, kPairs, each(4 * kPart, 4 * kPart, 2)},
        Expected{Kind::kGather, 0, kApart, {{0, 3 * kPart}, {kPart, 0}, {kPart, 0}, {kPart, 0}}},
        Expected{Kind::kScatter, 0, kApart, {{3 * kPart, 0}, {0, kPart}, {0, kPart}, {0, kPart}}},
        Expected{Kind::kSendRecv, 0, kPairs, each(kWhole, kWhole, 2)},
        Expected{Kind::kBarrier, 0, kApart, each(0, 0)}),
    [](const auto& info) {
      const Expected& one = info.param;
      return std::string(bench::info(one.kind).name) + (one.devices == kApart   ? "_apart"
                                                        : one.devices == kPairs ? "_pairs"
                                                                                : "_together");
    });

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
  bench::Test test;
  test.kind = Kind::kAllReduce, test.type = ncclFloat;
  constexpr std::size_t bytes = 1 << 20;
  // Memory moves 2 bytes for each of a call's, a link 1.5 each way.
  const auto apart = [](double copy, double link) {
    return ranks_on({"0:1", "0:2", "0:3", "0:4"}, copy, link);
  };
  const Roof by_link = roof_of(apart(1000, 100), test, 1, bytes);
  EXPECT_EQ(by_link.of, "link");
  EXPECT_DOUBLE_EQ(by_link.us, 1.5 * bytes / 100e3);
  const Roof by_memory = roof_of(apart(100, 1000), test, 1, bytes);
  EXPECT_EQ(by_memory.of, "memory");
  EXPECT_DOUBLE_EQ(by_memory.us, 2.0 * bytes / 100e3);
  // Not measured: nothing is known.
  EXPECT_EQ(roof_of(apart(0, 0), test, 1, bytes).us, 0);
}

// Each process that sees one device calls it 0.
TEST(Roof, DevicesOfOneNumberAreToldApartByWhereTheyAre) {
  bench::Test test;
  test.kind = Kind::kBroadcast, test.type = ncclFloat;
  constexpr std::size_t bytes = 1 << 20;
  const Roof apart = roof_of(ranks_on({"0:1", "0:2"}, 1000, 10), test, 1, bytes);
  EXPECT_EQ(apart.of, "link");
  const Roof together = roof_of(ranks_on({"0:1", "0:1"}, 1000, 10), test, 1, bytes);
  EXPECT_EQ(together.of, "memory");
}

TEST(Roof, LinksBetweenHostsHaveNoKnownLimit) {
  bench::Test test;
  test.kind = Kind::kAllReduce, test.type = ncclFloat;
  std::vector<Rank> ranks = ranks_on({"0:1", "0:1"}, 1000, 10);
  ranks[1].host = "there";
  EXPECT_EQ(roof_of(ranks, test, 1, 1 << 20).of, "memory");
}

}  // namespace
}  // namespace rondo::bench
