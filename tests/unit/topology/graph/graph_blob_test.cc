// SPDX-License-Identifier: Apache-2.0
// Serialised graphs: decoding returns an equal graph or an error.
#include "topology/graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "tests/support/fixtures.h"
#include "topology/graph/sysfs_graph.h"

namespace rondo::topology {
namespace {

TEST(GraphBlobs, GiveTheSameGraph) {
  for (const std::string& name : test::fixture_names()) {
    const Graph graph = test::fixture(name);
    const auto read = parse_graph(serialise(graph));
    ASSERT_TRUE(read.ok()) << name << ": " << read.error().text;
    EXPECT_EQ(*read, graph) << name;
    EXPECT_EQ(read->digest(), graph.digest()) << name;
  }
  const Graph here = read_sysfs_graph().value();
  EXPECT_EQ(parse_graph(serialise(here)).value(), here);
}

TEST(GraphBlobs, ThatAreCutOrLongerAreRefused) {
  Bytes blob = serialise(test::fixture("one-gpu"));
  for (std::size_t bytes = 0; bytes < blob.size(); ++bytes)
    EXPECT_FALSE(parse_graph(ByteSpan(blob).first(bytes)).ok()) << bytes;
  blob.push_back(std::byte{0});
  EXPECT_FALSE(parse_graph(blob).ok());
}

// For every changed byte: an error, or a graph that survives another round trip.
TEST(GraphBlobs, ThatAreDamagedAreRefusedOrSound) {
  const Bytes blob = serialise(test::fixture("pcie-4-switches"));
  int refused = 0;
  for (std::size_t at = 0; at < blob.size(); ++at) {
    for (const int value : {0, 1, 0x7f, 0xff}) {
      Bytes damaged = blob;
      damaged[at] = static_cast<std::byte>(value);
      const auto read = parse_graph(damaged);
      if (!read.ok()) {
        ++refused;
        continue;
      }
      ASSERT_EQ(parse_graph(serialise(*read)).value(), *read) << at;
    }
  }
  EXPECT_GT(refused, static_cast<int>(blob.size()));
}

TEST(GraphBlobs, RatesThatNoLinkHasAreRefused) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int nic = builder.add({.kind = NodeKind::kNic, .name = "eth0", .port_gbs = 3.25});
  const double rate = 1234.5;
  builder.link({nic, numa, GraphLinkKind::kPci, rate, 16, Source::kFile});
  const Bytes blob = serialise(std::move(builder).build().value());
  for (const double known : {rate, 3.25}) {
    const auto bytes = std::as_bytes(std::span(&known, 1));
    const auto at = std::search(blob.begin(), blob.end(), bytes.begin(), bytes.end());
    ASSERT_NE(at, blob.end());
    for (const double wrong : {-1.0, 1e10, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
      Bytes damaged = blob;
      std::memcpy(&damaged[static_cast<std::size_t>(at - blob.begin())], &wrong, sizeof(wrong));
      EXPECT_FALSE(parse_graph(damaged).ok()) << wrong;
    }
  }
}

// Parallel links add up only to the maximum that can be serialised, for any number of links in a
// blob.
TEST(GraphBlobs, LinksThatAddUpStopAtTheMaximum) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int gpu = builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:17:00.0", .number = 0});
  builder.link({gpu, numa, GraphLinkKind::kPci, 1, 16, Source::kFile});
  for (int i = 0; i < 3; ++i) {
    builder.link(
        {gpu, numa, GraphLinkKind::kC2c, GraphLink::kMaxGbs, GraphLink::kMaxCount, Source::kFile});
  }
  const Graph graph = std::move(builder).build().value();
  const auto c2c = std::ranges::find(graph.links(), GraphLinkKind::kC2c, &GraphLink::kind);
  ASSERT_NE(c2c, graph.links().end());
  EXPECT_EQ(c2c->count, GraphLink::kMaxCount);
  EXPECT_EQ(c2c->gbs, GraphLink::kMaxGbs);
  EXPECT_EQ(parse_graph(serialise(graph)).value(), graph);
}

}  // namespace
}  // namespace rondo::topology
