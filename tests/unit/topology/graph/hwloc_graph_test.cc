// SPDX-License-Identifier: Apache-2.0
// The graph of an hwloc XML file, written by hand, with devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "topology/graph/describe_graph.h"
#include "topology/graph/host_graph.h"
#include "topology/graph/paths.h"

namespace rondo::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTwoSockets = RONDO_FIXTURES_DIR "/hwloc/two-sockets.xml";

Graph two_sockets() {
  auto parsed = read_graph_file(kTwoSockets);
  EXPECT_TRUE(parsed.ok()) << parsed.error().text;
  return std::move(parsed).value().graph;
}

std::vector<std::string> labels(const Graph& graph, std::span<const int> devices) {
  std::vector<std::string> all;
  for (const int device : devices) all.push_back(label(graph, device));
  return all;
}

TEST(HwlocGraph, HasDevicesWithTheDriversNumbers) {
  const Graph graph = two_sockets();
  EXPECT_EQ(graph.cpu().vendor, "GenuineIntel");
  EXPECT_EQ(graph.numa_nodes().size(), 2u);
  ASSERT_EQ(labels(graph, graph.gpus()), (std::vector<std::string>{"GPU 0", "GPU 1"}));
  EXPECT_EQ(graph.node(graph.gpus()[0]).bus_id, "0000:04:00.0") << "cuda0, as no nvml is told";
  EXPECT_EQ(graph.node(graph.gpus()[1]).bus_id, "0000:03:00.0") << "nvml1";
}

TEST(HwlocGraph, HasThePortsThatAreActiveAndInterfacesOfOtherAdapters) {
  const Graph graph = two_sockets();
  ASSERT_THAT(labels(graph, graph.nics()), ElementsAre("mlx5_0", "eth0")) << "not ib0, not port 2";
  EXPECT_EQ(graph.node(graph.nics()[0]).port, 1);
  EXPECT_EQ(graph.node(graph.numa_of(graph.nics()[0])).number, 0);
  EXPECT_EQ(graph.node(graph.numa_of(graph.nics()[1])).number, 1);
}

TEST(HwlocGraph, PortsOfASwitchAreOneBridge) {
  const Graph graph = two_sockets();
  const int gpu = graph.gpus()[0], other = graph.gpus()[1];
  EXPECT_EQ(path_between(graph, gpu, other).kind, PathClass::kPix);
  EXPECT_EQ(path_between(graph, gpu, graph.nics()[0]).kind, PathClass::kPix);
  EXPECT_EQ(path_between(graph, gpu, graph.nics()[1]).kind, PathClass::kSys);
  EXPECT_NEAR(graph.up(other)->gbs, 31.5, 0.1);
  EXPECT_EQ(graph.up(other)->source, Source::kHwloc);
}

// The second GPU was idle when the file was written, so its link showed a lower rate.
TEST(HwlocGraph, RatesThatWereFoundCountBeforeThoseOfTheMoment) {
  const Graph file = two_sockets();
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  for (const char* bus_id : {"0000:03:00.0", "0000:04:00.0"}) {
    const int gpu = builder.add({.kind = NodeKind::kGpu, .bus_id = bus_id});
    builder.link({gpu, numa, GraphLinkKind::kPci, 63, 16, Source::kSysfs});
  }
  auto joined = join(file, std::move(builder).build().value());
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  const Graph& graph = joined->graph;
  ASSERT_EQ(graph.gpus().size(), 2u);
  for (const int gpu : graph.gpus()) {
    EXPECT_DOUBLE_EQ(graph.up(gpu)->gbs, 63);
    EXPECT_EQ(graph.up(gpu)->count, 16);
    EXPECT_EQ(graph.up(gpu)->source, Source::kSysfs);
  }
  EXPECT_EQ(path_between(graph, graph.gpus()[0], graph.gpus()[1]).kind, PathClass::kPix)
      << "the tree is the file's";
}

TEST(HwlocGraph, ATextOfASyntheticMachineHasNoDevices) {
  DiscoverOptions options;
  options.synthetic = "numa:2 core:2 pu:1";
  const auto parsed = read_hwloc_graph(options);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_EQ(parsed->graph.numa_nodes().size(), 2u);
  EXPECT_TRUE(parsed->graph.gpus().empty());
}

TEST(HwlocGraph, ADamagedFileIsRefusedByName) {
  const test::TemporaryFolder folder;
  const std::string file =
      folder.file("cut.xml", "<topology version=\"2.0\"><object type=\"Nothing\"/></topology>");
  const auto parsed = read_graph_file(file);
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().text, HasSubstr(file));
}

}  // namespace
}  // namespace rondo::topology
