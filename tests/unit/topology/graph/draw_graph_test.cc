// SPDX-License-Identifier: Apache-2.0
// Graphviz output of graphs.
#include "topology/graph/describe_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fixtures.h"

namespace rondo::topology {
namespace {

using test::fixture;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(DrawGraph, HasALineForEveryNodeAndLink) {
  for (const std::string& name : test::fixture_names()) {
    const Graph graph = fixture(name);
    const std::string dot = describe_dot(graph);
    EXPECT_EQ(count(dot, " -- "), graph.links().size()) << name;
    const bool mesh = count(dot, "cluster_nvlinks") > 0;
    EXPECT_EQ(count(dot, "shape="), graph.nodes().size() + (mesh ? graph.gpus().size() : 0) + 1)
        << name << ": and the legend";
  }
}

TEST(DrawGraph, FramesEachNumaNodeWithItsDevices) {
  const Graph graph = fixture("dgx-h100");
  const std::string dot = describe_dot(graph);
  ASSERT_EQ(count(dot, "subgraph cluster_numa"), 2u);
  const std::string first = dot.substr(dot.find("cluster_numa"));
  const std::string frame = first.substr(0, first.find("  }\n"));
  EXPECT_THAT(frame, HasSubstr("GPU 0"));
  EXPECT_THAT(frame, HasSubstr("mlx5_0"));
  EXPECT_THAT(frame, Not(HasSubstr("GPU 4")));
  EXPECT_THAT(frame, Not(HasSubstr("NVSwitch")));
}

TEST(DrawGraph, DashesWhatIsAssumed) {
  const std::string dot = describe_dot(fixture("dgx-h100"));
  EXPECT_EQ(count(dot, "style=dashed"), 1u) << "the link between the sockets alone";
  EXPECT_THAT(dot, HasSubstr("label=\"450 (x18)\""));
}

TEST(DrawGraph, FasterLinksAreWider) {
  const auto width = [](double gbs) {
    GraphBuilder builder;
    const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
    const int nic = builder.add({.kind = NodeKind::kNic, .name = "eth0"});
    builder.link({nic, numa, GraphLinkKind::kPci, gbs, 16, Source::kFile});
    const std::string dot = describe_dot(std::move(builder).build().value());
    return std::stod(dot.substr(dot.find("penwidth=") + 9));
  };
  EXPECT_LT(width(0), width(16));
  EXPECT_LT(width(16), width(63));
  EXPECT_LT(width(63), width(900));
}

TEST(DrawGraph, NvLinksFromGpuToGpuHaveAFrameOfTheirOwn) {
  const std::string mesh = describe_dot(fixture("dgx-1v"));
  EXPECT_EQ(count(mesh, "cluster_nvlinks"), 1u);
  EXPECT_THAT(mesh, HasSubstr("label=\"50 (x2)\""));
  EXPECT_EQ(count(describe_dot(fixture("dgx-h100")), "cluster_nvlinks"), 0u);
}

TEST(DrawGraph, NoNameEndsALabel) {
  EXPECT_EQ(dot_quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(dot_quoted("a\nb"), "\"a\\\\nb\"");
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int nic = builder.add({.kind = NodeKind::kNic, .name = "e\"]; evil [label=\""});
  builder.link({nic, numa, GraphLinkKind::kPci, 1, 1});
  EXPECT_THAT(describe_dot(std::move(builder).build().value()),
              HasSubstr("label=\"e\\\"]; evil [label=\\\"\", shape=box"));
}

}  // namespace
}  // namespace rondo::topology
