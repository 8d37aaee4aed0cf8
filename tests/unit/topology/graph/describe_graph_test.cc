// SPDX-License-Identifier: Apache-2.0
// The text output of graphs.
#include "topology/graph/describe_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/fixtures.h"

namespace rondo::topology {
namespace {

using test::fixture;
using ::testing::HasSubstr;

TEST(DescribeGraph, DrawsDevicesBelowTheirSwitches) {
  const std::string text = describe(fixture("pcie-4-switches"));
  EXPECT_THAT(text, HasSubstr("NUMA node 0, cpus 0-63\n"
                              "├─ bridge 0000:20:00.0 [PCI 16 GT/s x16, 31.51 GB/s]\n"
                              "│  ├─ GPU 0, 0000:21:00.0, sm_86 "
                              "[PCI 16 GT/s x16, 31.51 GB/s]\n"));
  EXPECT_THAT(text, HasSubstr("mlx5_0, 0000:23:00.0, network 12.5 GB/s"));
  EXPECT_THAT(text, HasSubstr("GPU 0 - GPU 1 [NVLink x4, 56.25 GB/s]"));
}

TEST(DescribeGraph, ReportsWhatIsAssumed) {
  EXPECT_THAT(describe(fixture("dgx-h100")),
              HasSubstr("NUMA node 0 - NUMA node 1 [sockets, 22 GB/s (assumed)]"));
}

// The cells of a row, split at blanks.
std::vector<std::string> row(const std::string& matrix, const std::string& label) {
  std::istringstream lines(matrix.substr(matrix.find("\n" + label + " ") + 1));
  std::string line, word;
  std::getline(lines, line);
  std::istringstream words(line.substr(label.size()));
  std::vector<std::string> cells;
  while (words >> word) cells.push_back(word);
  return cells;
}

TEST(DescribeGraph, AMatrixAsOfADgx1) {
  const std::string matrix = describe_matrix(fixture("dgx-1v"));
  EXPECT_THAT(row(matrix, "GPU 0"),
              ::testing::ElementsAre("X", "NV1", "NV1", "NV2", "NV2", "NVB", "NVB", "NVB", "PIX",
                                     "PHB", "SYS", "SYS", "0", "0-19,40-59"))
      << matrix;
}

TEST(DescribeGraph, AMatrixOverASwitch) {
  const std::string matrix = describe_matrix(fixture("dgx-h100"));
  EXPECT_THAT(row(matrix, "GPU 7"),
              ::testing::ElementsAre("NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "X",
                                     "SYS", "SYS", "SYS", "SYS", "PHB", "PHB", "PHB", "PIX", "1",
                                     "56-111,168-223"))
      << matrix;
}

TEST(DescribeGraph, JsonHasEveryNodeAndLink) {
  const Graph graph = fixture("gb200-nvl72");
  const auto json = nlohmann::json::parse(json_of(graph).text(2));
  ASSERT_EQ(json["nodes"].size(), graph.nodes().size());
  ASSERT_EQ(json["links"].size(), graph.links().size());
  EXPECT_EQ(json["digest"], fmt::format("{:016x}", graph.digest()));
  int c2c = 0;
  for (const auto& link : json["links"]) {
    if (link["kind"] != "C2C") continue;
    ++c2c;
    EXPECT_EQ(link["gbs"], 225.0);
  }
  EXPECT_EQ(c2c, 4);
}

}  // namespace
}  // namespace rondo::topology
