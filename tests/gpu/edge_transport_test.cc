// SPDX-License-Identifier: Apache-2.0
// The transport of each edge between ranks on GPUs, and where layouts therefore put its slots.
#include "collectives/gpu/plan/edge_transport.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

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
                      {{true, false, true}, "host", EdgeTransport::kOnHost},
                      {{false, false, true}, "NVLink", EdgeTransport::kInFabric},
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

// Only words and lines are zeroed, and they come first; slots of rings are longer.
TEST(ConnectionLayouts, KeepWhatIsNotZeroedBehindTheRest) {
  ConnectionShape shape;
  shape.channels = 2;
  shape.ring_slot_bytes = 4 * shape.slot_bytes;
  shape.ll_push = shape.meets = shape.messages = true;
  constexpr int kRanks = 5;
  const ConnectionLayout layout(shape, P2pReach(kRanks));
  std::vector<std::map<std::uint64_t, std::uint64_t>> used(kRanks);  // by rank: begin, end
  int in_ring = 0;
  for (const ConnectionLayout::Edge& edge : layout.edges()) {
    in_ring += edge.in_ring ? 1 : 0;
    EXPECT_TRUE(!edge.in_ring || edge.to == (edge.from + 1) % kRanks);
    EXPECT_EQ(layout.slot_bytes(edge, 0), edge.in_ring ? shape.ring_slot_bytes : shape.slot_bytes);
    for (int protocol = 0; protocol < cuda::kProtocols; ++protocol) {
      const std::uint64_t begin = edge.slots[protocol].offset;
      const std::uint64_t end =
          begin + static_cast<unsigned>(shape.slots) * layout.slot_bytes(edge, protocol);
      EXPECT_EQ(begin >= layout.zeroed_bytes(edge.to),
                protocol == static_cast<int>(cuda::Protocol::kSimple));
      used[edge.to][begin] = end;
      used[edge.to][edge.tail[protocol].offset] = edge.tail[protocol].offset + 8;
      used[edge.from][edge.head[protocol].offset] = edge.head[protocol].offset + 8;
    }
  }
  EXPECT_EQ(in_ring, shape.channels * kRanks);
  for (int r = 0; r < kRanks; ++r) {
    used[r][layout.shared_at(r).offset] = layout.shared_at(r).offset + 2 * layout.shared_bytes();
    EXPECT_GE(layout.shared_at(r).offset, layout.zeroed_bytes(r));
    std::uint64_t before = layout.message_counters_at(kRanks - 1, 1);
    for (const auto& [begin, end] : used[r]) {
      EXPECT_GE(begin, before) << "rank " << r;
      before = end;
    }
    EXPECT_LE(before, layout.bytes(r));
  }
  // More CTAs than channels count their launches.
  EXPECT_GT(layout.shared_ctas(), shape.channels);
  EXPECT_GE(layout.rounds_at(),
            layout.launches_at() + 8u * static_cast<unsigned>(layout.shared_ctas()));
}

// Slots and staging are blocks of their own: what remains is small, and holds all words.
TEST(ConnectionLayouts, LazySlotsAndStagingAreBlocksOfTheirOwn) {
  constexpr int kRanks = 8;
  ConnectionShape shape;
  shape.channels = 16;
  shape.ring_slot_bytes = 4 * shape.slot_bytes;
  shape.ll_push = shape.meets = shape.messages = true;
  const ConnectionLayout whole(shape, P2pReach(kRanks));
  shape.lazy = true;
  const ConnectionLayout lazy(shape, P2pReach(kRanks));
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(lazy.bytes(r), lazy.zeroed_bytes(r));
    EXPECT_LE(lazy.bytes(r), std::uint64_t{1} << 20);
    std::uint64_t sum = lazy.bytes(r);
    for (int b = 0; b < ConnectionLayout::kLazyBlocks; ++b) {
      const std::uint64_t bytes = lazy.lazy_bytes(static_cast<ConnectionLayout::Block>(b), r);
      EXPECT_GT(bytes, 0u);
      EXPECT_EQ(bytes % ConnectionLayout::kBlockUnit, 0u);
      EXPECT_EQ(whole.lazy_bytes(static_cast<ConnectionLayout::Block>(b), r), 0u);
      sum += bytes;
    }
    EXPECT_GE(sum, whole.bytes(r));
    EXPECT_LT(sum, whole.bytes(r) + ConnectionLayout::kLazyBlocks * ConnectionLayout::kBlockUnit);
    EXPECT_EQ(lazy.shared_at(r).block, ConnectionLayout::kStaging);
  }
  for (const ConnectionLayout::Edge& edge : lazy.edges())
    for (int protocol = 0; protocol < cuda::kProtocols; ++protocol) {
      EXPECT_EQ(edge.slots[protocol].block, protocol);
      EXPECT_EQ(edge.tail[protocol].block, ConnectionLayout::kMain);
      EXPECT_EQ(edge.head[protocol].block, ConnectionLayout::kMain);
    }
}

}  // namespace
}  // namespace rondo::gpu
