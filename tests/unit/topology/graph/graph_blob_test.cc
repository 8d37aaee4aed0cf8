// Graphs travel as bytes: the same graph arrives, or an error does.
#include "topology/graph/graph_blob.h"

#include <gtest/gtest.h>

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

// Whatever a byte is changed to: an error, or a graph that travels unchanged.
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

}  // namespace
}  // namespace rondo::topology
