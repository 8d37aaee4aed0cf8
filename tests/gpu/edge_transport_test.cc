// The transport of each edge between ranks on GPUs, and where layouts therefore put its slots.
#include "collectives/gpu/plan/edge_transport.h"

#include <gtest/gtest.h>

#include <string>

#include "collectives/gpu/plan/connection_layout.h"

namespace rondo::gpu {
namespace {

TEST(EdgeTransports, TheFirstThatCanConnectIsTaken) {
  struct Row {
    EdgeFacts facts;
    const char* name;
    EdgeTransport::Home home;
  };
  const Row rows[] = {{{true, true}, "P2P", EdgeTransport::kAtReceiver},
                      {{true, false}, "host", EdgeTransport::kOnHost},
                      {{false, false}, "network", EdgeTransport::kAtBothEnds},
                      {{false, true}, "network", EdgeTransport::kAtBothEnds}};
  for (const Row& row : rows) {
    const EdgeTransport& found = edge_transport(row.facts);
    EXPECT_EQ(std::string(found.name), row.name);
    EXPECT_EQ(found.home, row.home);
    EXPECT_EQ(&edge_transport(row.home), &found);
  }
}

// Ranks 0 and 1 have peer access, 2 has none, 3 is on another host.
TEST(EdgeTransports, ReportWhereSlotsLie) {
  const std::vector<int> host_of{0, 0, 0, 1};
  P2pReach near(4, host_of);
  near.separate(0, 2);
  near.separate(1, 2);
  const ConnectionLayout layout({}, near, {host_of, 0});
  int seen = 0;
  for (const ConnectionLayout::Edge& edge : layout.edges()) {
    ASSERT_FALSE(edge.slots.empty());
    const int slots = edge.slots[0].home, tail = edge.tail[0].home, head = edge.head[0].home;
    if (edge.crosses()) {
      EXPECT_TRUE(edge.from == 3 || edge.to == 3);
      EXPECT_EQ(slots, ConnectionLayout::kNowhere);
      EXPECT_EQ(!edge.bounce_buffers[cuda::kOutgoing], edge.from == 3);
      EXPECT_EQ(!edge.bounce_buffers[cuda::kIncoming], edge.to == 3);
      seen |= 1;
    } else if (edge.from == 2 || edge.to == 2) {
      EXPECT_EQ(slots, ConnectionLayout::kHost);
      EXPECT_EQ(tail, ConnectionLayout::kHost);
      EXPECT_EQ(head, ConnectionLayout::kHost);
      seen |= 2;
    } else {
      EXPECT_EQ(slots, edge.to);
      EXPECT_EQ(tail, edge.to);
      EXPECT_EQ(head, edge.from);
      seen |= 4;
    }
  }
  EXPECT_EQ(seen, 7);
}

}  // namespace
}  // namespace rondo::gpu
