// SPDX-License-Identifier: Apache-2.0
// Predictions for machines: never more than their wires carry, and equal to closed forms where
// these exist.
#include "collectives/model/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "collectives/planner/device_costs.h"
#include "tests/support/fixtures.h"
#include "topology/channels/packing.h"

namespace rondo::model {
namespace {

constexpr const char* kMachines[] = {
    "dgx-1v",     "dgx-a100",    "dgx-h100",           "dgx-b200",
    "hgx-a100-4", "gb200-nvl72", "pcie-8-two-sockets", "pcie-4-switches"};

Result<GpuCluster> cluster_of(const std::string& machine, int hosts) {
  return GpuCluster::make(test::fixture(machine), {.hosts = hosts});
}

CallRecord all_reduce(std::uint64_t bytes) {
  return {bytes / 4, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
}

const Way* find_way(const std::vector<Way>& ways, std::string_view name, cuda::Protocol protocol) {
  for (const Way& way : ways)
    if (way.name == name && way.plan.protocol == protocol) return &way;
  return nullptr;
}

TEST(Predictions, NoWayIsFasterThanTheWires) {
  for (const char* const machine : kMachines) {
    for (const int hosts : {1, 2}) {
      const auto cluster = cluster_of(machine, hosts);
      if (!cluster.ok()) continue;  // no port
      const double n = cluster->ranks();
      for (const std::uint64_t bytes : {std::uint64_t{4} << 10, std::uint64_t{1} << 30}) {
        const auto ways = ways_of(*cluster, all_reduce(bytes));
        EXPECT_FALSE(ways.empty()) << machine;
        for (const Way& way : ways) {
          const auto prediction = predict(*cluster, all_reduce(bytes), way);
          ASSERT_TRUE(prediction.ok()) << prediction.error().text;
          // Rings and direct reads within one host. Trees are excluded: they leave hosts through
          // other ports than rings.
          if (way.name == "tree") continue;
          const double gbs = 2 * (n - 1) / n * static_cast<double>(bytes) / (prediction->us * 1000);
          // A switch that sums receives each byte once, plus a share of the results; a rank of a
          // ring sends each part twice.
          const double gain = way.name == "nvls" ? 2 * (n - 1) / (n + 1) : 1;
          EXPECT_LE(gbs, cluster->channels().bound_gbs * gain)
              << machine << " x " << hosts << ", " << way.name << " of " << bytes;
        }
      }
    }
  }
}

// Trays that NVLink joins: rings, trees and messages reach most of a GPU's NVLinks, however many
// trays there are.
TEST(Predictions, TraysThatNvLinkJoins) {
  const auto of = [](const char* machine, int hosts, bool fabric) {
    return GpuCluster::make(test::fixture(machine), {.hosts = hosts, .fabric = fabric});
  };
  const auto ns = [](const GpuCluster& cluster, const CallRecord& record) {
    for (const Way& way : ways_of(cluster, record))
      if (way.chosen) return predict(cluster, record, way)->us;
    return 0.0;
  };
  for (const int hosts : {2, 5, 18}) {
    const auto joined = of("gb200-nvl72", hosts, true), apart = of("gb200-nvl72", hosts, false);
    ASSERT_TRUE(joined.ok() && joined->is_joined());
    const double n = joined->ranks();
    const auto large = all_reduce(std::uint64_t{4} << 30), small = all_reduce(4 << 10);
    const double gbs = 2 * (n - 1) / n * 4 * 1.073741824e9 / (ns(*joined, large) * 1000);
    EXPECT_GT(gbs, 600);
    EXPECT_LE(gbs, joined->channels().bound_gbs);
    EXPECT_LT(ns(*joined, small), ns(*apart, small));
    if (hosts > 5) continue;  // all-to-all of 72 GPUs by a network takes a minute to simulate
    CallRecord messages = large;
    messages.collective = Collective::kAllToAll;
    messages.count = 1 << 20;
    EXPECT_LT(ns(*joined, messages), ns(*apart, messages));
    messages.count = (std::uint64_t{1} << 30) / 4 / static_cast<std::uint64_t>(joined->ranks());
    EXPECT_LT(2.5 * ns(*joined, messages), ns(*apart, messages));
  }
  EXPECT_FALSE(of("gb200-nvl72", 1, true)->is_joined());
  EXPECT_FALSE(of("dgx-h100", 2, true)->is_joined()) << "its switches are in the host";
}

// The list contains the planner's own choice exactly once. Large calls on one NVLink host reach
// more than 75% of the wires' rate.
TEST(Predictions, PlannersChoiceIsMarked) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 10, std::uint64_t{1} << 30}) {
    const auto cluster = cluster_of("dgx-h100", 1);
    const auto ways = ways_of(*cluster, all_reduce(bytes));
    int chosen = 0;
    for (const Way& way : ways) chosen += way.chosen ? 1 : 0;
    EXPECT_EQ(chosen, 1) << bytes;
  }
  const auto cluster = cluster_of("dgx-h100", 1);
  const auto large = all_reduce(std::uint64_t{1} << 30);
  const auto ways = ways_of(*cluster, large);
  const Way* const ring = find_way(ways, "ring", cuda::Protocol::kSimple);
  ASSERT_NE(ring, nullptr);
  EXPECT_TRUE(ring->chosen);
  const auto prediction = predict(*cluster, large, *ring);
  EXPECT_GT(2 * 7.0 / 8 * (1 << 30) / (prediction->us * 1000), 0.75 * 450);
  EXPECT_THAT(prediction->busiest, testing::HasSubstr("NVSwitch")) << prediction->busiest;
}

// The switch sums only if it can, on one host. Without a request rings are used.
TEST(Predictions, SwitchesSumWhereTheyCan) {
  const auto record = all_reduce(std::uint64_t{1} << 30);
  const auto nvls_of = [&](const char* machine, int hosts) {
    const auto cluster = cluster_of(machine, hosts);
    EXPECT_TRUE(cluster.ok()) << cluster.error().text;
    const auto ways = ways_of(*cluster, record);
    const Way* const nvls = find_way(ways, "nvls", cuda::Protocol::kSimple);
    if (nvls == nullptr) return 0.0;
    EXPECT_FALSE(nvls->chosen) << machine;
    const auto prediction = predict(*cluster, record, *nvls);
    EXPECT_TRUE(prediction.ok()) << prediction.error().text;
    return prediction->us;
  };
  for (const char* const machine : {"dgx-h100", "dgx-b200", "cloud-vm"})
    EXPECT_GT(nvls_of(machine, 1), 0) << machine;
  EXPECT_EQ(nvls_of("dgx-h100", 2), 0);
  for (const char* const machine : {"dgx-a100", "hgx-a100-4", "pcie-8-two-sockets"})
    EXPECT_EQ(nvls_of(machine, 1), 0) << machine;
  const auto cluster = cluster_of("dgx-h100", 1);
  Wishes wishes;
  wishes.algorithms.allowed[0] = 1 << static_cast<int>(Algorithm::kNvls);
  for (const Way& way : ways_of(*cluster, record, wishes))
    EXPECT_EQ(way.chosen, way.name == "nvls") << way.name;
}

// Data between hosts pass ports: twice the ports carry twice the bytes.
TEST(Predictions, PortsAreTheLimitBetweenHosts) {
  const auto cluster = cluster_of("hgx-a100-4", 2);
  ASSERT_TRUE(cluster.ok()) << cluster.error().text;
  const auto record = all_reduce(std::uint64_t{1} << 30);
  const auto ways = ways_of(*cluster, record);
  const Way* const ring = find_way(ways, "ring", cuda::Protocol::kSimple);
  ASSERT_NE(ring, nullptr);
  const auto prediction = predict(*cluster, record, *ring);
  EXPECT_THAT(prediction->busiest, testing::HasSubstr("network")) << prediction->busiest;
}

// On uniform machines a ring's closed form equals the simulated time.
TEST(ClosedForm, IsTheSimulatedTimeOnUniformMachines) {
  for (const int n : {2, 4, 16, 64}) {
    sim::Machine machine;
    machine.wire_gbs.assign(2 * static_cast<std::size_t>(n), 50);
    machine.routes = [n](int from, int to, int) { return sim::Route{{from, n + to}, 900, false}; };
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kReduce}) {
      for (const double sum_gbs : {10.0, 400.0}) {
        sim::SimCall call;
        call.collective = collective;
        call.ranks = n;
        call.element_bytes = 4;
        call.slots = 8;
        call.cost = {.fixed_ns = 200, .copy_gbs = 60, .sum_gbs = sum_gbs};
        sim::SimStream stream;
        stream.order.resize(static_cast<std::size_t>(n));
        std::iota(stream.order.begin(), stream.order.end(), 0);
        const bool parts = collective == Collective::kAllReduce;
        constexpr std::uint64_t kChunk = 16 << 10;
        stream.per_round = kChunk * (parts ? static_cast<std::uint64_t>(n) : 1);
        stream.count = stream.per_round * 50;
        stream.slot_bytes = kChunk * 4;
        call.streams = {stream};
        const auto simulated = sim::simulate(machine, call);
        ASSERT_TRUE(simulated.ok()) << simulated.error().text;
        const double closed = closed_form_ns(machine, call);
        EXPECT_LE(std::abs(closed - simulated->ns), 0.01 * simulated->ns)
            << name(collective) << " of " << n << " at " << sum_gbs << ": " << closed << " beside "
            << simulated->ns;
      }
    }
  }
}

TEST(GpuCluster, RefusesWhatIsNotThere) {
  const auto too_many = GpuCluster::make(test::fixture("dgx-h100"), {.hosts = 1, .gpus = 9});
  EXPECT_THAT(too_many.error().text, testing::HasSubstr("9 GPUs a host: this machine has 8"));
  const auto alone = GpuCluster::make(test::fixture("one-gpu"), {.hosts = 1});
  EXPECT_THAT(alone.error().text, testing::HasSubstr("needs two ranks")) << alone.error().text;
  const auto none = GpuCluster::make(test::fixture("cpu-box"), {.hosts = 4});
  EXPECT_FALSE(none.ok());
}

TEST(Ways, AreNoneOfBarriersAndOfNothing) {
  const auto cluster = cluster_of("dgx-a100", 1);
  CallRecord record = all_reduce(1 << 20);
  record.collective = Collective::kBarrier;
  EXPECT_TRUE(ways_of(*cluster, record).empty());
  record = all_reduce(0);
  EXPECT_TRUE(ways_of(*cluster, record).empty());
}

}  // namespace
}  // namespace rondo::model
