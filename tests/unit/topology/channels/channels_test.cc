// SPDX-License-Identifier: Apache-2.0
// Rings over the GPUs of a host: on the machines of tests/topology, and on random machines compared
// with the best of all possible sets of rings.
#include "topology/channels/channels.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/support/fixtures.h"
#include "tests/unit/topology/channels/machines.h"
#include "topology/channels/packing.h"

namespace rondo::topology {
namespace {

using random::Loads;
using random::random_machine;

void expect_to_hold(const Graph& graph, const ChannelRequest& request, const ChannelPlan& plan) {
  Loads loads;
  for (const Channel& channel : plan.channels) {
    std::multiset<int> visited(channel.gpus.begin(), channel.gpus.end());
    EXPECT_EQ(visited, std::multiset<int>(request.gpus.begin(), request.gpus.end()));
    if (request.nics.empty()) {
      EXPECT_EQ(channel.in, -1);
    } else {
      for (const int port : {channel.in, channel.out}) {
        EXPECT_NE(std::find(request.nics.begin(), request.nics.end(), port), request.nics.end());
      }
      EXPECT_TRUE(request.ports == PortUse::kPairs || channel.in == channel.out);
    }
    random::pass(loads, graph, channel);
  }
  for (const auto& [ends, uses] : loads) {
    EXPECT_LE(uses * plan.channel_gbs, random::gbs_of(graph, ends) * (1 + 1e-6))
        << "from node " << ends.first << " to node " << ends.second;
  }
  EXPECT_LE(plan.gbs(), plan.bound_gbs * (1 + 1e-6));
}

// Every order of the GPUs, with every pair of ports to enter and to leave.
std::vector<Channel> all_channels(const ChannelRequest& request) {
  std::vector<Channel> all;
  std::vector<int> order(request.gpus.begin(), request.gpus.end());
  std::sort(order.begin(), order.end());
  const int first = order.front();
  do {
    if (request.nics.empty()) {
      if (order.front() == first) all.push_back({order, -1, -1});
      continue;
    }
    for (const int in : request.nics) {
      for (const int out : request.nics) {
        if (request.ports == PortUse::kPairs || in == out) all.push_back({order, in, out});
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

// The maximum total bandwidth of a number of equal channels, over all sets of channels.
class EverySet {
 public:
  EverySet(const Graph& graph, const ChannelRequest& request) {
    std::map<std::pair<int, int>, std::size_t> number;
    std::set<std::vector<int>> kinds;  // channels that load the links equally count as one
    std::vector<Loads> loads;
    for (const Channel& channel : all_channels(request)) {
      Loads one;
      random::pass(one, graph, channel);
      for (const auto& [ends, uses] : one) {
        if (number.emplace(ends, number.size()).second) gbs_.push_back(random::gbs_of(graph, ends));
      }
      loads.push_back(std::move(one));
    }
    for (const Loads& one : loads) {
      std::vector<int> row(gbs_.size(), 0);
      for (const auto& [ends, uses] : one) row[number[ends]] = uses;
      kinds.insert(std::move(row));
    }
    rows_.assign(kinds.begin(), kinds.end());
  }

  std::size_t kinds() const { return rows_.size(); }
  double maximum(int channels) {
    best_ = 0;
    add(std::vector<int>(gbs_.size(), 0), 0, 0, channels);
    return best_;
  }

 private:
  void add(const std::vector<int>& load, std::size_t from, int count, int maximum) {
    double share = 1e300;
    for (std::size_t i = 0; i < load.size(); ++i) {
      if (load[i] > 0) share = std::min(share, gbs_[i] / load[i]);
    }
    if (count > 0) best_ = std::max(best_, count * share);
    if (count == maximum || share * maximum <= best_) return;
    for (std::size_t k = from; k < rows_.size(); ++k) {
      std::vector<int> more = load;
      for (std::size_t i = 0; i < more.size(); ++i) more[i] += rows_[k][i];
      add(more, k, count + 1, maximum);
    }
  }

  std::vector<double> gbs_;
  std::vector<std::vector<int>> rows_;
  double best_ = 0;
};

ChannelRequest request_for(const Graph& graph, unsigned seed) {
  ChannelRequest request{graph.gpus()};
  if (seed % 2 == 1) request.nics = graph.nics();
  request.ports = seed % 4 == 1 ? PortUse::kSame : PortUse::kPairs;
  return request;
}

class RandomMachines : public testing::TestWithParam<int> {};

TEST_P(RandomMachines, GetNoMoreThanTheirBoundAndAsMuchAsEverySetOfRings) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Graph graph = random_machine(seed, GetParam());
    ChannelRequest request = request_for(graph, seed);
    const auto plan = find_channels(graph, request);
    ASSERT_TRUE(plan.ok()) << plan.error().text;
    expect_to_hold(graph, request, *plan);
    ASSERT_FALSE(plan->channels.empty());

    EverySet every(graph, request);
    request.max_channels = every.kinds() <= 60 ? 3 : every.kinds() <= 800 ? 2 : 1;
    const auto few = find_channels(graph, request);
    ASSERT_TRUE(few.ok()) << few.error().text;
    EXPECT_NEAR(few->gbs(), every.maximum(request.max_channels), 1e-4)
        << "of " << every.kinds() << " kinds of rings, at most " << request.max_channels;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, RandomMachines, testing::Values(2, 3, 4, 5, 6));

// The narrowest cut, found by trying every set of nodes.
double narrowest_cut(const Graph& graph, bool network) {
  std::vector<int> nodes(graph.nodes().size());
  std::iota(nodes.begin(), nodes.end(), 0);
  double minimum = 1e300;
  for (unsigned set = 0; set < (1u << nodes.size()); ++set) {
    const auto in = [&](int node) { return (set >> node & 1) != 0; };
    const auto gpus = std::count_if(graph.gpus().begin(), graph.gpus().end(), in);
    const bool parts =
        network ? gpus > 0 : gpus > 0 && gpus < static_cast<int>(graph.gpus().size());
    if (!parts) continue;
    double cut = 0;  // both directions are equal
    for (const GraphLink& link : graph.links()) cut += in(link.from) != in(link.to) ? link.gbs : 0;
    for (const int nic : graph.nics()) cut += network && in(nic) ? graph.node(nic).port_gbs : 0;
    minimum = std::min(minimum, cut);
  }
  return minimum;
}

TEST(Bound, IsTheNarrowestOfAllCuts) {
  int compared = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Graph graph = random_machine(seed, 2 + static_cast<int>(seed % 3));
    // If NVLinks exist, routes do not use PCI, and the bound ignores it.
    const bool only_pci =
        std::none_of(graph.links().begin(), graph.links().end(),
                     [](const auto& l) { return l.kind == GraphLinkKind::kNvLink; });
    if (!only_pci || graph.nics().empty()) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ++compared;
    EXPECT_NEAR(bound_gbs(Wires(graph, graph.gpus(), {}), PortUse::kSame),
                narrowest_cut(graph, false), 1e-6);
    const double both = bound_gbs(Wires(graph, graph.gpus(), graph.nics()), PortUse::kPairs);
    EXPECT_NEAR(both, std::min(narrowest_cut(graph, true), 2 * narrowest_cut(graph, false)), 1e-6);
  }
  EXPECT_GT(compared, 30);
}

struct Known {
  const char* machine;
  double ring_gbs;   // within one host; 0: no ring
  double same_gbs;   // of several hosts, through the same port
  double pairs_gbs;  // of several hosts, through two ports
};

class KnownMachines : public testing::TestWithParam<Known> {};

// Expected values from the machines' data sheets: NVLinks per GPU, ports per host, and the slowest
// PCI link on the path.
TEST_P(KnownMachines, GetWhatTheirWiresGive) {
  const Known& known = GetParam();
  const Graph graph = rondo::test::fixture(known.machine);
  const auto expect = [&](std::span<const int> nics, PortUse ports, double gbs) {
    const ChannelRequest request{graph.gpus(), nics, ports};
    const auto plan = find_channels(graph, request);
    ASSERT_TRUE(plan.ok()) << plan.error().text;
    expect_to_hold(graph, request, *plan);
    EXPECT_NEAR(plan->gbs(), gbs, 0.01);
    EXPECT_TRUE(gbs == 0 || plan->gbs() >= 0.95 * plan->bound_gbs) << plan->bound_gbs;
    EXPECT_TRUE(plan->complete);
    EXPECT_LT(plan->steps, 100'000);
  };
  expect({}, PortUse::kSame, known.ring_gbs);
  if (graph.nics().empty()) return;
  expect(graph.nics(), PortUse::kSame, known.same_gbs);
  expect(graph.nics(), PortUse::kPairs, known.pairs_gbs);
}

const Known kKnown[] = {
    {"cloud-vm", 450, 400, 400},
    {"dgx-1v", 150, 50, 50},
    {"dgx-a100", 300, 200, 200},
    {"dgx-b200", 900, 400, 400},
    {"dgx-h100", 450, 400, 400},
    {"gb200-nvl72", 900, 200, 200},
    {"hgx-a100-4", 300, 50, 50},
    {"one-gpu", 0, 0.3125, 0.3125},
    {"pcie-4-switches", 31.508, 25, 25},
    // One direction of the link between sockets, or both if each channel has to return.
    {"pcie-8-two-sockets", 22, 22, 31.508},
};
INSTANTIATE_TEST_SUITE_P(Fixtures, KnownMachines, testing::ValuesIn(kKnown), [](const auto& info) {
  std::string name = info.param.machine;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Channels, OfAHybridCubeMeshUseEachNvLinkOnce) {
  const Graph graph = rondo::test::fixture("dgx-1v");
  const auto plan = find_channels(graph, {graph.gpus()});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->channels.size(), 6u);
  Loads loads;
  for (const Channel& channel : plan->channels) random::pass(loads, graph, channel);
  for (const GraphLink& link : graph.links()) {
    if (link.kind != GraphLinkKind::kNvLink) continue;
    EXPECT_EQ((loads[{link.from, link.to}]), link.count);
    EXPECT_EQ((loads[{link.to, link.from}]), link.count);
  }
}

TEST(Channels, LeaveAHostByAllItsPorts) {
  const Graph graph = rondo::test::fixture("dgx-h100");
  const auto plan = find_channels(graph, {graph.gpus(), graph.nics(), PortUse::kSame});
  ASSERT_TRUE(plan.ok());
  std::set<int> ports, first;
  for (const Channel& channel : plan->channels) {
    ports.insert(channel.in);
    first.insert(channel.gpus.front());
  }
  EXPECT_EQ(ports.size(), 8u);
  EXPECT_EQ(first.size(), 8u);
}

TEST(Channels, OfSeventyTwoGpusBehindOneSwitchTakeFewSteps) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  for (int i = 0; i < 72; ++i) {
    const int gpu = builder.add(
        {.kind = NodeKind::kGpu, .bus_id = fmt::format("0000:{:02x}:00.0", i + 1), .number = i});
    builder.link({gpu, numa, GraphLinkKind::kPci, pci_gbs(32, 16), 16});
    builder.link({gpu, builder.nvswitch(), GraphLinkKind::kNvLink, 900, 18});
  }
  const auto graph = std::move(builder).build();
  ASSERT_TRUE(graph.ok());
  const auto plan = find_channels(*graph, {graph->gpus()});
  ASSERT_TRUE(plan.ok());
  EXPECT_DOUBLE_EQ(plan->gbs(), 900);
  EXPECT_LE(plan->steps, 100);
}

TEST(Channels, NameTheSlowestWire) {
  const Graph graph = rondo::test::fixture("pcie-8-two-sockets");
  const auto plan = find_channels(graph, {graph.gpus()});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(graph.node(plan->slowest.from).kind, NodeKind::kNuma);
  EXPECT_EQ(graph.node(plan->slowest.to).kind, NodeKind::kNuma);
}

TEST(Channels, RefuseWhatIsNoGpu) {
  const Graph graph = rondo::test::fixture("dgx-a100");
  EXPECT_EQ(find_channels(graph, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(find_channels(graph, {graph.nics()}).code(), StatusCode::kInvalidArgument);
  const int beyond[] = {static_cast<int>(graph.nodes().size())};
  EXPECT_EQ(find_channels(graph, {beyond}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(find_channels(graph, {graph.gpus(), {}, PortUse::kSame, 0}).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rondo::topology
