// SPDX-License-Identifier: Apache-2.0
// The planner's choices against the simulator, on the machines of tests/topology: the rates of
// wires, and how much slower the chosen variant is than the fastest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "collectives/model/predictions.h"
#include "collectives/model/ways.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_plan.h"
#include "tests/support/fixtures.h"

namespace rondo::model {
namespace {

GpuCluster known_cluster(const std::string& machine, int hosts) {
  auto cluster = GpuCluster::make(test::fixture(machine), {.hosts = hosts});
  EXPECT_TRUE(cluster.ok()) << cluster.error().text;
  return std::move(cluster).value();
}

TEST(WireRates, OfASwitchedMachine) {
  const gpu::WireRates rates = known_cluster("dgx-h100", 1).rates();
  EXPECT_EQ(rates.rings, 1);
  EXPECT_NEAR(rates.ring_gbs, 450 * 0.82, 1);
  EXPECT_NEAR(rates.direct_gbs, 450 * 0.82, 1);
  // A rank with two children sends half of the data to each, and receives as much in the other
  // tree.
  EXPECT_NEAR(rates.tree_gbs, 450 * 0.82, 1);
  EXPECT_NEAR(rates.both_gbs, 450 * 0.82 / 2, 1);
  EXPECT_TRUE(rates.rings_by_nvlink && rates.all_by_nvlink);
}

// Half of the pairs have no NVLink there: rings avoid these pairs, all-to-all traffic cannot.
TEST(WireRates, OfAMeshWithHoles) {
  const gpu::WireRates rates = known_cluster("dgx-1v", 1).rates();
  EXPECT_TRUE(rates.rings_by_nvlink);
  EXPECT_FALSE(rates.all_by_nvlink);
  EXPECT_GT(rates.rings * rates.ring_gbs, 100);
  EXPECT_LT(rates.direct_gbs, 30);
}

TEST(WireRates, PortsAreTheLimitBetweenHosts) {
  const gpu::WireRates rates = known_cluster("dgx-h100", 2).rates();
  EXPECT_EQ(rates.rings, 8);
  EXPECT_NEAR(rates.ring_gbs, 50 * 0.96, 0.1);
  EXPECT_GT(rates.direct_gbs, 300) << "within a host";
}

TEST(WireRates, FastWiresGetMoreChannels) {
  const auto channels = [](const gpu::WireRates& rates, std::uint64_t slot,
                           const gpu::DeviceCosts& costs = gpu::kDevicePriors) {
    return gpu::usual_channels(rates, slot, costs);
  };
  const gpu::WireRates slow = known_cluster("dgx-a100", 1).rates();
  const gpu::WireRates fast = known_cluster("dgx-b200", 1).rates();
  EXPECT_EQ(channels(slow, gpu::kUsualRingSlotBytes), gpu::kUsualChannels);
  EXPECT_EQ(channels({}, gpu::kUsualRingSlotBytes), gpu::kUsualChannels);
  EXPECT_GT(channels(fast, gpu::kUsualRingSlotBytes), gpu::kUsualChannels);
  EXPECT_LE(channels(fast, gpu::kUsualRingSlotBytes), gpu::kMaxUsualChannels);
  // Where jobs take longer, small slots need more channels, and so do slow CTAs.
  EXPECT_GT(channels(fast, 64 << 10), channels(fast, gpu::kUsualRingSlotBytes));
  gpu::DeviceCosts measured;
  measured.set(gpu::DeviceRate::kJob, 2030);
  measured.set(gpu::DeviceRate::kSum, 1 / 53.7);
  const gpu::WireRates h100 = known_cluster("dgx-h100", 1).rates();
  EXPECT_EQ(channels(h100, gpu::kUsualRingSlotBytes, measured), gpu::kUsualChannels);
  EXPECT_GT(channels(h100, 64 << 10, measured), gpu::kUsualChannels);
}

TEST(WireRates, FastWiresGetMoreCtasOfDirectKernels) {
  const double h100 = known_cluster("dgx-h100", 1).rates().direct_gbs;
  EXPECT_EQ(gpu::direct_ctas(h100, gpu::kDevicePriors), gpu::kDirectCtasOfGpu);
  gpu::DeviceCosts slow;
  slow.set(gpu::DeviceRate::kCopy, 1 / 5.0);
  EXPECT_EQ(gpu::direct_ctas(h100, slow), cuda::kBarrierCtas);
}

constexpr Collective kOfRings[] = {Collective::kAllReduce, Collective::kAllGather,
                                   Collective::kReduceScatter, Collective::kBroadcast,
                                   Collective::kReduce};

CallRecord record_of(Collective which, std::uint64_t count) {
  return {count, which, DataType::kFloat32, RedOp::kSum, 0, 0};
}

// Simulated time of the communicators' choice, relative to the fastest variant that needs no
// request.
double ratio_of(const GpuCluster& cluster, const CallRecord& record) {
  double chosen = 0, fastest = 0;
  for (const Way& way : ways_of(cluster, record)) {
    if (way.plan.strategy == Strategy::kMulticast) continue;
    const auto prediction = predict(cluster, record, way);
    EXPECT_TRUE(prediction.ok()) << prediction.error().text;
    if (!prediction.ok()) return 0;
    if (way.chosen) chosen = prediction->us;
    if (fastest == 0 || prediction->us < fastest) fastest = prediction->us;
  }
  EXPECT_GT(chosen, 0) << to_string(record);
  return chosen / fastest;
}

struct Ratios {
  double log_mean = 0, worst = 0;
  std::string worst_call;
  int calls = 0;
};
void compare(const std::string& machine, int hosts, Collective which, Ratios* ratios) {
  const GpuCluster cluster = known_cluster(machine, hosts);
  for (std::uint64_t count = 256; count <= (std::uint64_t{64} << 20) / 4; count *= 16) {
    const CallRecord record = record_of(which, count);
    const double ratio = ratio_of(cluster, record);
    ratios->log_mean += std::log(ratio);
    ++ratios->calls;
    if (ratio <= ratios->worst) continue;
    ratios->worst = ratio;
    ratios->worst_call = machine + " x" + std::to_string(hosts) + " " + to_string(record);
  }
}

TEST(Choices, AreNearTheFastestInTheSimulator) {
  Ratios ratios;
  for (const char* machine : {"dgx-1v", "dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72",
                              "hgx-a100-4", "pcie-4-switches", "pcie-8-two-sockets"})
    for (const int hosts : {1, 2, 4})
      for (const Collective which : kOfRings) compare(machine, hosts, which, &ratios);
  EXPECT_LT(std::exp(ratios.log_mean / ratios.calls), 1.005);
  EXPECT_LT(ratios.worst, 1.1) << ratios.worst_call;
}

// Calls where a ring and a tree between many hosts take about the same time.
TEST(Choices, OnManyHostsAreNearTheFastestToo) {
  struct Row {
    const char* machine;
    int hosts;
    Collective which;
    std::uint64_t mebibytes;
  };
  constexpr Row kRows[] = {{"cloud-vm", 4, Collective::kReduce, 4},
                           {"dgx-a100", 8, Collective::kReduce, 16},
                           {"dgx-a100", 16, Collective::kAllReduce, 64},
                           {"hgx-a100-4", 16, Collective::kBroadcast, 16},
                           {"hgx-a100-4", 32, Collective::kAllReduce, 16}};
  for (const Row& row : kRows) {
    const CallRecord record = record_of(row.which, (row.mebibytes << 20) / 4);
    EXPECT_LT(ratio_of(known_cluster(row.machine, row.hosts), record), 1.1)
        << row.machine << " x" << row.hosts << " " << to_string(record);
  }
}

// Where the choice changes, no time is lost: twice the bytes take at most twice the time, and never
// less.
TEST(Choices, TimesGrowWithoutJumps) {
  for (const char* const machine : {"dgx-a100", "dgx-h100"}) {
    const GpuCluster cluster = known_cluster(machine, 1);
    for (const Collective which : kOfRings) {
      double simulated = 0, planned = 0;
      for (std::uint64_t count = 256; count <= (std::uint64_t{1} << 30); count *= 2) {
        const CallRecord record = record_of(which, count);
        for (const Way& way : ways_of(cluster, record)) {
          if (!way.chosen) continue;
          const auto prediction = predict(cluster, record, way);
          ASSERT_TRUE(prediction.ok()) << prediction.error().text;
          const double ns = gpu::device_ns(facts_of(cluster), record, way.plan);
          if (count > 256) {
            EXPECT_GT(prediction->us, 0.99 * simulated) << machine << " " << to_string(record);
            EXPECT_LT(prediction->us, 2.02 * simulated) << machine << " " << to_string(record);
            EXPECT_GT(ns, 0.99 * planned) << machine << " " << to_string(record);
            EXPECT_LT(ns, 2.02 * planned) << machine << " " << to_string(record);
          }
          simulated = prediction->us;
          planned = ns;
        }
      }
    }
  }
}

// A root with three neighbours in a tree: reductions between hosts still take a tree, not a chain
// through all ranks.
TEST(Choices, SmallReductionsBetweenHostsTakeTreesToAnyRoot) {
  const GpuCluster cluster = known_cluster("dgx-h100", 8);
  for (const int root : {0, 3, 63}) {
    CallRecord record = record_of(Collective::kReduce, 256);
    record.root = root;
    double tree = 0, ring = 0;
    for (const Way& way : ways_of(cluster, record)) {
      EXPECT_EQ(way.chosen, way.name == "tree") << "root " << root;
      (way.name == "tree" ? tree : ring) = predict(cluster, record, way)->us;
    }
    EXPECT_GT(tree, 0) << root;
    EXPECT_LT(tree, 0.6 * ring) << root;
  }
}

}  // namespace
}  // namespace rondo::model
