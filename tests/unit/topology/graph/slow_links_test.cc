// SPDX-License-Identifier: Apache-2.0
// Detects GPUs with slower links than their peers, on the fixtures' machines with one link made
// slower.
#include "topology/graph/slow_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fixtures.h"

namespace rondo::topology {
namespace {

using testing::HasSubstr;

std::vector<GpuLinks> links_of_all(const Graph& graph) {
  std::vector<GpuLinks> all;
  for (const int gpu : graph.gpus()) all.push_back(links_of(graph, gpu));
  return all;
}

TEST(SlowLinks, MachinesOfEqualGpusHaveNone) {
  for (const char* name : {"dgx-1v", "dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72",
                           "pcie-8-two-sockets", "one-gpu", "cpu-box"})
    EXPECT_TRUE(slower_than_peers(links_of_all(test::fixture(name))).empty()) << name;
}

TEST(SlowLinks, ADegradedNvLinkIsNamed) {
  std::vector<GpuLinks> all = links_of_all(test::fixture("dgx-h100"));
  ASSERT_EQ(all.size(), 8u);
  const int links = all[5].nvlinks;
  all[5].nvlink_gbs *= (links - 1.0) / links;
  all[5].nvlinks = links - 1;
  const auto slow = slower_than_peers(all);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].place, 5u);
  EXPECT_THAT(slow[0].text, HasSubstr("NVLinks of 425 GB/s (17 of them)"));
  EXPECT_THAT(slow[0].text, HasSubstr("450 GB/s (18 of them)"));
}

TEST(SlowLinks, ACardInHalfOfItsLanesIsNamed) {
  std::vector<GpuLinks> all = links_of_all(test::fixture("pcie-8-two-sockets"));
  ASSERT_EQ(all.size(), 8u);
  all[2].pci_gbs /= 2;
  all[2].pci_lanes = 8;
  const auto slow = slower_than_peers(all);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].place, 2u);
  EXPECT_THAT(slow[0].text, HasSubstr("a PCI link of"));
  EXPECT_THAT(slow[0].text, HasSubstr("(8 lanes) where most have"));
}

TEST(SlowLinks, OfTwoHalvesTheFasterCountsAndNothingUnknownDoes) {
  EXPECT_EQ(slower_than_peers(std::vector<GpuLinks>{{100}, {50}}).size(), 1u);
  EXPECT_EQ(slower_than_peers(std::vector<GpuLinks>{{100}, {50}, {50}}).size(), 0u);
  EXPECT_EQ(slower_than_peers(std::vector<GpuLinks>{{100}, {0}, {99}}).size(), 0u);
}

}  // namespace
}  // namespace rondo::topology
