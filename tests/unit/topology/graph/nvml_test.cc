// SPDX-License-Identifier: Apache-2.0
// Reads NVML, with a fake library that the tests script.
#include "topology/graph/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "topology/graph/paths.h"

namespace rondo::topology {
namespace {

using ::testing::HasSubstr;

Result<std::vector<NvmlGpu>> ask(const char* script) {
  ::setenv("RONDO_FAKE_NVML", script, 1);
  auto gpus = ask_nvml(RONDO_FAKE_NVML);
  ::unsetenv("RONDO_FAKE_NVML");
  return gpus;
}

Graph with_gpus(std::initializer_list<const char*> bus_ids) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  for (const char* bus_id : bus_ids) {
    const int gpu = builder.add({.kind = NodeKind::kGpu, .bus_id = bus_id});
    builder.link({gpu, numa, GraphLinkKind::kPci, 63, 16});
  }
  return std::move(builder).build().value();
}

Graph graph_of(const Graph& found, const char* script) {
  const auto gpus = ask(script);
  EXPECT_TRUE(gpus.ok()) << gpus.error().text;
  auto graph = with_nvml(found, *gpus);
  EXPECT_TRUE(graph.ok()) << graph.error().text;
  return std::move(graph).value();
}

TEST(Nvml, LinksThroughASwitch) {
  const Graph graph = graph_of(with_gpus({"0000:1b:00.0", "0000:43:00.0"}),
                               "00000000:43:00.0 9.0 s s s\n00000000:1B:00.0 9.0 s s s");
  ASSERT_EQ(graph.gpus().size(), 2u);
  EXPECT_EQ(graph.node(graph.gpus()[0]).bus_id, "0000:43:00.0") << "the driver's order";
  EXPECT_EQ(graph.node(graph.gpus()[1]).compute, 90);
  const Path path = path_between(graph, graph.gpus()[0], graph.gpus()[1]);
  EXPECT_EQ(path.kind, PathClass::kNvl);
  EXPECT_DOUBLE_EQ(path.gbs, 75);
}

TEST(Nvml, LinksFromGpuToGpuCountOnce) {
  const Graph graph = graph_of(with_gpus({"0000:1b:00.0", "0000:43:00.0"}),
                               "00000000:1B:00.0 8.0 00000000:43:00.0 00000000:43:00.0\n"
                               "00000000:43:00.0 8.0 00000000:1B:00.0 00000000:1B:00.0");
  EXPECT_EQ(graph.nvswitch(), -1);
  const GraphLink* link = graph.between(graph.gpus()[0], graph.gpus()[1]);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->count, 2);
  EXPECT_DOUBLE_EQ(link->gbs, 50);
  EXPECT_EQ(link->source, Source::kNvml);
}

TEST(Nvml, HiddenEndsAreSwitches) {
  const Graph graph = graph_of(with_gpus({"0000:1b:00.0"}), "00000000:1B:00.0 9.0 h h");
  ASSERT_GE(graph.nvswitch(), 0);
  EXPECT_EQ(graph.between(graph.gpus()[0], graph.nvswitch())->count, 2);
}

TEST(Nvml, LinksThatAreDownAreCountedAlone) {
  const auto gpus = ask("00000000:1B:00.0 9.0 s d s d d");
  ASSERT_TRUE(gpus.ok()) << gpus.error().text;
  ASSERT_EQ(gpus->size(), 1u);
  EXPECT_EQ(gpus->front().nvlinks.size(), 2u);
  EXPECT_EQ(gpus->front().nvlinks_down, 3);
}

TEST(Nvml, C2cLinksAddUp) {
  const Graph graph =
      graph_of(with_gpus({"0000:1b:00.0"}), "00000000:1B:00.0 9.0 c2c=44712,44712,-44712,44712");
  const Path path = path_between(graph, graph.gpus()[0], graph.numa_nodes()[0]);
  EXPECT_EQ(path.kind, PathClass::kC2c);
  EXPECT_NEAR(path.gbs, 3 * 44.712, 1e-9);
}

TEST(Nvml, NvLinksToACpu) {
  const Graph graph = graph_of(with_gpus({"0000:1b:00.0"}), "00000000:1B:00.0 7.0 c c c");
  const Path path = path_between(graph, graph.gpus()[0], graph.numa_nodes()[0]);
  EXPECT_EQ(path.kind, PathClass::kC2c);
  EXPECT_DOUBLE_EQ(path.gbs, 75);
}

TEST(Nvml, AGpuInMigModeHasInstancesAndNoNvLinks) {
  const Graph graph = graph_of(with_gpus({"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"}),
                               "00000000:1B:00.0 9.0 s s mig=3\n00000000:43:00.0 9.0 s s\n"
                               "00000000:52:00.0 9.0 00000000:1B:00.0 00000000:43:00.0 mig=0");
  ASSERT_EQ(graph.gpus().size(), 3u);
  const int three = graph.gpus()[0], whole = graph.gpus()[1], none = graph.gpus()[2];
  EXPECT_EQ(graph.node(three).instances, 3);
  EXPECT_EQ(graph.node(whole).instances, -1);
  EXPECT_EQ(graph.node(none).instances, 0) << "cut, but into nothing yet";
  ASSERT_GE(graph.nvswitch(), 0);
  EXPECT_EQ(graph.between(three, graph.nvswitch()), nullptr);
  EXPECT_NE(graph.between(whole, graph.nvswitch()), nullptr);
  for (const int other : {three, whole}) EXPECT_EQ(graph.between(none, other), nullptr);
}

TEST(Nvml, GpusThatCannotBeCutAreWhole) {
  const Graph graph = graph_of(with_gpus({"0000:1b:00.0"}), "00000000:1B:00.0 7.0 s");
  EXPECT_EQ(graph.node(graph.gpus()[0]).instances, -1);
}

TEST(Nvml, AGpuThatTheGraphLacksIsAdded) {
  const Graph graph = graph_of(with_gpus({}), "00000000:1B:00.0 9.0");
  ASSERT_EQ(graph.gpus().size(), 1u);
  EXPECT_EQ(graph.numa_of(graph.gpus()[0]), graph.numa_nodes()[0]);
}

TEST(Nvml, AGpuThatIsLostLeavesTheOthers) {
  const auto gpus = ask("lost 9.0\n00000000:1B:00.0 9.0 s");
  ASSERT_TRUE(gpus.ok()) << gpus.error().text;
  ASSERT_EQ(gpus->size(), 1u);
  EXPECT_EQ(gpus->front().number, 1);
}

TEST(Nvml, APlaceInAnNvLinkFabricCountsOnceItIsComplete) {
  const auto gpus =
      ask("00000000:1B:00.0 10.0 s fabric=171,7,3\n00000000:43:00.0 10.0 s fabric=171,7,2\n"
          "00000000:52:00.0 10.0 s");
  ASSERT_TRUE(gpus.ok()) << gpus.error().text;
  ASSERT_EQ(gpus->size(), 3u);
  FabricPlace place{{}, 7};
  place.cluster.fill(171);
  EXPECT_EQ(gpus->at(0).fabric, place);
  EXPECT_FALSE(gpus->at(1).fabric.is_known()) << "in progress";
  EXPECT_FALSE(gpus->at(2).fabric.is_known());
}

TEST(Nvml, ADriverThatDoesNotAnswer) {
  const auto gpus = ask("dead");
  ASSERT_FALSE(gpus.ok());
  EXPECT_THAT(gpus.error().text, HasSubstr("NVML: Driver Not Loaded"));
}

TEST(Nvml, ALibraryThatIsNotThere) {
  const auto gpus = ask_nvml("libnothing-of-the-kind.so.1");
  ASSERT_FALSE(gpus.ok());
  EXPECT_THAT(gpus.error().text, HasSubstr("libnothing-of-the-kind.so.1"));
  EXPECT_THAT(gpus.error().text, HasSubstr("driver"));
}

TEST(Nvml, ALibraryWithoutItsFunctions) {
  const auto gpus = ask_nvml("libm.so.6");
  ASSERT_FALSE(gpus.ok());
  EXPECT_THAT(gpus.error().text, HasSubstr("libm.so.6 lacks functions"));
}

}  // namespace
}  // namespace rondo::topology
