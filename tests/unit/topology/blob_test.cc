// serialise() and parse(): round trips, and no crash or nonsense from damaged bytes.
#include <gtest/gtest.h>

#include <random>

#include "topology/host_topology.h"

namespace rondo::topology {
namespace {

HostTopology machine(const char* synthetic) {
  DiscoverOptions options;
  options.synthetic = synthetic;
  auto host = discover(options);
  EXPECT_TRUE(host.ok());
  return *host;
}

TEST(TopologyBlob, ARoundTripKeepsEveryField) {
  for (const char* text : {"pu:1", "numa:2 l3:1 core:8 pu:2", "package:4 numa:2 l3:4 l2:8 pu:2"}) {
    const HostTopology host = machine(text);
    const auto same = parse(serialise(host));
    ASSERT_TRUE(same.ok()) << same.error().text;
    EXPECT_EQ(same.value(), host);
  }
  const auto real = discover();
  ASSERT_TRUE(real.ok());
  EXPECT_EQ(parse(serialise(real.value())).value(), real.value());
}

TEST(TopologyBlob, AMachineOf512ThreadsStaysSmall) {
  EXPECT_LT(serialise(machine("package:2 numa:4 l3:4 l2:8 core:1 pu:2")).size(), 10000u);
}

TEST(TopologyBlob, EveryShorterOrLongerBlobIsRefused) {
  const std::string blob = serialise(machine("numa:2 l3:1 core:2 pu:2"));
  for (std::size_t length = 0; length < blob.size(); ++length) {
    const auto cut = parse(std::string_view(blob).substr(0, length));
    ASSERT_FALSE(cut.ok()) << length;
    EXPECT_EQ(cut.status(), Status::kInvalidArgument);
  }
  EXPECT_FALSE(parse(blob + "x").ok());
}

TEST(TopologyBlob, EveryFlippedBitIsSeenOrKept) {
  const std::string blob = serialise(machine("numa:2 l3:1 core:2 pu:2"));
  for (std::size_t bit = 0; bit < 8 * blob.size(); ++bit) {
    std::string damaged = blob;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto host = parse(damaged);
    if (!host.ok()) continue;
    ASSERT_EQ(serialise(host.value()), damaged) << "bit " << bit;
  }
}

TEST(TopologyBlob, WhatParsesAfterDamageIsSoundAndSerialisesToTheSameBytes) {
  const std::string blob = serialise(machine("numa:2 l3:1 core:4 pu:2"));
  constexpr unsigned kSeed = 20090401;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = blob;
    for (int hits = 1 + static_cast<int>(random() % 4); hits > 0; --hits) {
      const std::size_t at = 4 + random() % (damaged.size() - 4);
      damaged[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    const auto host = parse(damaged);
    if (!host.ok()) continue;
    ASSERT_EQ(serialise(host.value()), damaged) << "seed " << kSeed << " round " << round;
    ASSERT_GE(host.value().cores_total, host.value().cores_usable);
    ASSERT_GE(host.value().cores_usable, 1);
  }
}

}  // namespace
}  // namespace rondo::topology
