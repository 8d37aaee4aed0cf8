// SPDX-License-Identifier: Apache-2.0
// Channels of GPU kernels follow the rings that the search finds: on one host and on several,
// through which ports, and what ranks do if they find different rings.
#include "collectives/gpu/plan/channel_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "collectives/gpu/plan/connection_layout.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "tests/support/environment.h"
#include "tests/support/fixture_file.h"
#include "tests/support/temporary_folder.h"
#include "topology/graph/nccl_xml.h"

namespace rondo::gpu {
namespace {

using test::WithEnvironment;

std::shared_ptr<const topology::Graph> machine(const std::string& name) {
  auto parsed = topology::read_nccl_xml(test::fixture_file(name));
  EXPECT_TRUE(parsed.ok()) << name;
  return std::make_shared<const topology::Graph>(std::move(parsed->graph));
}

// The even GPUs form one host, the odd ones another.
std::shared_ptr<const topology::Graph> pairs() { return machine("../gpu/two-hosts"); }
const std::vector<std::vector<int>> kEvenAndOdd{{0, 2, 4, 6}, {1, 3, 5, 7}};

// Hosts of one kind; gpus[h]: GPUs used by the ranks of host h, as numbered in the file.
struct Machines {
  Machines(const std::shared_ptr<const topology::Graph>& graph,
           const std::vector<std::vector<int>>& gpus, const std::vector<std::uint64_t>& host_of)
      : shape(shape_of_hosts(host_of)) {
    std::vector<std::size_t> used(gpus.size());
    for (const std::uint64_t host : host_of) {
      const int gpu = gpus[host][used[host]++];
      for (const int node : graph->gpus())
        if (graph->node(node).number == gpu)
          placement.locations.push_back({graph->node(node).bus_id});
    }
    placement.graphs.assign(gpus.size(), graph);
  }
  ChannelOrders orders(int max_channels = 16, int cross_nic = 2) const {
    return find_orders({&placement, shape, max_channels, cross_nic});
  }
  RankPlacement placement;
  HostShape shape;
};

std::vector<int> numbers(int from, int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), from);
  return all;
}

void expect_every_rank_once(const ChannelOrders& orders, int ranks) {
  for (const ChannelOrders::Ring& ring : orders.rings) {
    std::vector<int> sorted = ring.ranks;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, numbers(0, ranks));
  }
}

// Two hosts with a port beside every GPU: ranks 0 to 3 and 4 to 7.
Machines two_hosts() { return {pairs(), kEvenAndOdd, {0, 0, 0, 0, 1, 1, 1, 1}}; }

TEST(ChannelOrders, OfOneHostAreItsRings) {
  const Machines dgx1(machine("dgx-1v"), {numbers(0, 8)}, std::vector<std::uint64_t>(8));
  const ChannelOrders orders = dgx1.orders();
  EXPECT_EQ(orders.rings.size(), 6u);
  expect_every_rank_once(orders, 8);
  EXPECT_TRUE(orders.permutes());
  const Machines turned(machine("dgx-1v"), {{5, 4, 7, 6, 1, 0, 3, 2}},
                        std::vector<std::uint64_t>(8));
  for (const Machines* one : {&dgx1, &turned})
    for (const auto& ring : one->orders().rings) EXPECT_EQ(ring.ranks.front(), 0);
  EXPECT_LE(dgx1.orders(2).rings.size(), 2u) << "no more than there may be channels";
}

TEST(ChannelOrders, AreRankAfterRankWhereNothingBetterIsKnown) {
  const Machines one_ring(machine("dgx-a100"), {numbers(0, 8)}, std::vector<std::uint64_t>(8));
  EXPECT_TRUE(one_ring.orders().rings.empty());
  EXPECT_EQ(one_ring.orders().rates.rings, 1) << "what its wires let pass is known all the same";
  EXPECT_NE(one_ring.orders().digest(), 0u);
  EXPECT_EQ(ChannelOrders().digest(), 0u);
  Machines unknown(machine("dgx-1v"), {numbers(0, 8)}, std::vector<std::uint64_t>(8));
  unknown.placement.locations[3].gpu = "0000:77:00.0";
  EXPECT_TRUE(unknown.orders().rings.empty());
  unknown.placement.locations[3] = unknown.placement.locations[4];
  EXPECT_TRUE(unknown.orders().rings.empty()) << "two ranks on one GPU";
  const Machines no_port(machine("gb200-nvl72"), {{0}, {0}}, {0, 1});
  EXPECT_TRUE(find_orders({nullptr, no_port.shape, 16, 2}).rings.empty());
}

TEST(ChannelOrders, AreWrittenByTheRankThatTheEnvironmentNames) {
  const Machines hosts = two_hosts();
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/graph.json";
  const WithEnvironment file("NCCL_GRAPH_DUMP_FILE", path), of("NCCL_GRAPH_DUMP_FILE_RANK", "5");
  const auto of_rank = [&](int rank) {
    return find_orders(&hosts.placement, hosts.shape, 16, rank);
  };
  of_rank(0);
  EXPECT_FALSE(std::filesystem::exists(path)) << "rank 0 wrote what rank 5 was to write";
  const ChannelOrders orders = of_rank(5);
  std::ifstream written(path);
  const auto json = nlohmann::json::parse(written, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(json.is_discarded());
  ASSERT_EQ(json["channels"].size(), orders.rings.size());
  EXPECT_EQ(json["channels"][1]["ranks"].get<std::vector<int>>(), orders.rings[1].ranks);
  // If the file cannot be written, the rings are the same.
  const WithEnvironment nowhere("NCCL_GRAPH_DUMP_FILE", "/nowhere/graph.json");
  EXPECT_EQ(of_rank(5).digest(), orders.digest());
}

TEST(ChannelOrders, KeepToAPortWhereTheEnvironmentRequiresIt) {
  std::vector<std::uint64_t> host_of(16, 0);
  std::fill(host_of.begin() + 8, host_of.end(), 1);
  const Machines hosts(machine("pcie-8-two-sockets"), {numbers(0, 8), numbers(0, 8)}, host_of);
  const auto with = [&](const char* cross_nic) {
    const WithEnvironment set("NCCL_CROSS_NIC", cross_nic);
    return find_orders(&hosts.placement, hosts.shape, 16, 0).digest();
  };
  EXPECT_EQ(with("0"), hosts.orders(16, 0).digest());
  EXPECT_NE(with("0"), hosts.orders(16, 2).digest());
  EXPECT_EQ(with("7"), hosts.orders(16, 2).digest()) << "a warning, and as if it were not set";
}

TEST(ChannelOrders, OfHostsLeaveByAsManyRanksAsThereArePorts) {
  const Machines hosts = two_hosts();
  const ChannelOrders orders = hosts.orders();
  ASSERT_EQ(orders.rings.size(), 4u);
  expect_every_rank_once(orders, 8);
  for (const int host : {0, 1}) {
    std::set<int> leave, enter;
    std::set<std::string> out, in;
    for (const auto& ring : orders.rings) {
      const auto first = static_cast<std::size_t>(host) * 4;
      enter.insert(ring.ranks[first]);
      leave.insert(ring.ranks[first + 3]);
      in.insert(ring.ports[static_cast<std::size_t>(host)].in.device);
      out.insert(ring.ports[static_cast<std::size_t>(host)].out.device);
    }
    EXPECT_EQ(leave.size(), 4u) << host;
    EXPECT_EQ(enter.size(), 4u) << host;
    EXPECT_EQ(out.size(), 4u) << host;
    EXPECT_EQ(in.size(), 4u) << host;
  }
}

// True if every ring uses one port on all hosts.
bool keeps_rails_apart(const ChannelOrders& orders) {
  for (const ChannelOrders::Ring& ring : orders.rings)
    for (const ChannelOrders::Ports& ports : ring.ports)
      if (!(ports.in.device == ring.ports[0].in.device && ports.out.device == ports.in.device))
        return false;
  return true;
}

// NCCL_IB_HCA of each host's first rank: ports that the network does not use are in no ring.
TEST(ChannelOrders, UseThePortsThatTheNetworkMay) {
  Machines hosts = two_hosts();
  const auto only = [&](const char* first, const char* second) {
    hosts.placement.nic_filters.clear();
    for (const char* text : {first, second})
      hosts.placement.nic_filters.push_back(*topology::NicFilter::parse(text));
    return hosts.orders();
  };
  const ChannelOrders two = only("mlx5_1,mlx5_3", "^mlx5_0,mlx5_2");
  ASSERT_EQ(two.rings.size(), 2u);
  expect_every_rank_once(two, 8);
  EXPECT_DOUBLE_EQ(two.gbs, hosts.orders().gbs);
  std::set<std::string> used;
  for (const ChannelOrders::Ring& ring : two.rings)
    for (const ChannelOrders::Ports& ports : ring.ports) {
      used.insert(ports.in.device);
      used.insert(ports.out.device);
    }
  EXPECT_EQ(used, (std::set<std::string>{"mlx5_1", "mlx5_3"}));
  EXPECT_EQ(only("nothing_of_this_host", "").rings.size(), 4u) << "its network is another one";
}

// NCCL_CROSS_NIC: if rails cost speed, only 0 keeps them apart; if they cost none, 2 does, too.
TEST(ChannelOrders, KeepRailsApart) {
  const std::vector<std::vector<int>> gpus{numbers(0, 8), numbers(0, 8)};
  const std::vector<std::uint64_t> host_of{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  const Machines slower(machine("pcie-8-two-sockets"), gpus, host_of);
  const Machines as_fast(machine("dgx-1v"), gpus, host_of);
  for (const int cross_nic : {0, 1, 2}) {
    SCOPED_TRACE(cross_nic);
    const ChannelOrders orders = slower.orders(16, cross_nic);
    ASSERT_FALSE(orders.rings.empty());
    expect_every_rank_once(orders, 16);
    EXPECT_EQ(keeps_rails_apart(orders), cross_nic == 0);
    EXPECT_EQ(keeps_rails_apart(as_fast.orders(16, cross_nic)), cross_nic != 1);
  }
  EXPECT_LT(slower.orders(16, 0).gbs, slower.orders(16, 2).gbs);
  EXPECT_EQ(as_fast.orders(16, 0).gbs, as_fast.orders(16, 2).gbs);
  EXPECT_NE(slower.orders(16, 0).digest(), slower.orders(16, 1).digest());
}

TEST(ChannelOrders, DoNotNeedRanksHostByHost) {
  const Machines turns(pairs(), kEvenAndOdd, {0, 1, 0, 1, 0, 1, 0, 1});
  const ChannelOrders orders = turns.orders();
  ASSERT_FALSE(orders.rings.empty());
  expect_every_rank_once(orders, 8);
  for (const auto& ring : orders.rings)
    for (std::size_t p = 0; p < 8; ++p) EXPECT_EQ(ring.ranks[p] % 2, p < 4 ? 0 : 1);
}

TEST(ChannelOrders, GiveARankItsPortFirst) {
  const Machines hosts = two_hosts();
  const ChannelOrders orders = hosts.orders();
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<topology::DeviceLocation> here(hosts.placement.locations.begin(),
                                                     hosts.placement.locations.begin() + 4);
    const auto usual = topology::near_nics(*hosts.placement.graphs[0], here, rank);
    const auto near = near_by_orders(orders, hosts.shape, rank, usual);
    std::set<std::string> wanted;
    for (const auto& ring : orders.rings) {
      if (ring.ranks[0] == rank) wanted.insert(ring.ports[0].in.device);
      if (ring.ranks[3] == rank) wanted.insert(ring.ports[0].out.device);
    }
    std::set<std::string> first;
    for (const auto& nic : near.tiers.front().nics) first.insert(nic.device);
    EXPECT_EQ(first, wanted) << rank;
    EXPECT_EQ(near.tiers.size(), usual.tiers.size() + 1);
    auto farthest = topology::PathClass::kLoc;
    for (const auto& nic : near.tiers.front().nics)
      farthest = std::max(farthest, topology::class_of(usual, nic));
    EXPECT_EQ(near.tiers.front().kind, farthest);
  }
}

TEST(ChannelOrders, LayOutARingAndTreesOverTheirPositions) {
  const ChannelOrders orders = two_hosts().orders();
  ConnectionShape shape;
  shape.channels = 6;
  const P2pReach near(8);
  const ConnectionLayout layout(shape, near, {}, orders);
  EXPECT_GE(layout.orders_at(), layout.bytes_of_ends());
  const auto order_bytes = 4 * cuda::order_words(8) * 6;
  EXPECT_GE(layout.launches_at(), layout.orders_at() + order_bytes);
  std::vector<std::set<std::pair<int, int>>> edges(6);
  for (const auto& edge : layout.edges())
    if (edge.lane == 0) edges[static_cast<std::size_t>(edge.channel)].insert({edge.from, edge.to});
  for (int c = 0; c < 6; ++c) {
    const std::vector<int>& ring = orders.of(c)->ranks;
    for (std::size_t p = 0; p < 8; ++p)
      EXPECT_TRUE(edges[static_cast<std::size_t>(c)].contains({ring[p], ring[(p + 1) % 8]}));
  }
  EXPECT_EQ(ConnectionLayout(shape, near).orders_at(), 0u);
}

// Each rank's proxy has one ring connection to the other host: a quarter of the bytes.
TEST(ChannelOrders, GiveEachProxyAQuarter) {
  const ChannelOrders orders = two_hosts().orders();
  const std::vector<int> host_of{0, 0, 0, 0, 1, 1, 1, 1};
  ConnectionShape shape;
  shape.channels = 4;
  const P2pReach near(8, host_of);
  const ConnectionLayout layout(shape, near, {host_of, 0}, orders);
  std::vector<int> leaving(8), entering(8);
  for (const auto& edge : layout.edges()) {
    const std::vector<int>& ring = orders.of(edge.channel)->ranks;
    const auto at = std::find(ring.begin(), ring.end(), edge.from) - ring.begin();
    if (!edge.crosses() || ring[static_cast<std::size_t>(at + 1) % 8] != edge.to) continue;
    if (edge.lane != 0) continue;
    ++leaving[static_cast<std::size_t>(edge.from)];
    ++entering[static_cast<std::size_t>(edge.to)];
  }
  EXPECT_EQ(leaving, std::vector<int>(8, 1));
  EXPECT_EQ(entering, std::vector<int>(8, 1));
}

TEST(ChannelOrders, RanksThatFindOthersTakeNone) {
  const ChannelOrders orders = two_hosts().orders();
  std::vector<GpuFacts> all(8);
  for (GpuFacts& one : all) one.orders = orders.digest();
  EXPECT_EQ(agreed_orders(all, orders).rings.size(), 4u);
  all[5].orders = 0;
  EXPECT_TRUE(agreed_orders(all, orders).rings.empty());
}

// A root can reduce over trees if its position has few enough neighbours on every channel.
TEST(ChannelOrders, ReportWhichRootsTreesTake) {
  DevicePlanFacts facts;
  facts.ranks = 8;
  ChannelOrders orders;
  orders.rings.push_back({{7, 6, 5, 4, 3, 2, 1, 0}, {}});
  orders.fill_facts(&facts);
  EXPECT_TRUE(facts.permuted);
  EXPECT_EQ(facts.tree_roots >> 4 & 1, 0u) << "at position 3 of 8, in the midst of a tree";
  EXPECT_EQ(facts.tree_roots >> 7 & 1, 1u);
  ChannelOrders().fill_facts(&facts);
  EXPECT_FALSE(facts.permuted);
}

TEST(ChannelOrders, AreWrittenAsJson) {
  const auto json = nlohmann::json::parse(json_of(two_hosts().orders()));
  ASSERT_EQ(json["channels"].size(), 4u);
  EXPECT_EQ(json["channels"][0]["ranks"].size(), 8u);
  EXPECT_EQ(json["channels"][0]["hosts"].size(), 2u);
  EXPECT_EQ(json["gbs"], json["bound_gbs"]);
}

}  // namespace
}  // namespace rondo::gpu
