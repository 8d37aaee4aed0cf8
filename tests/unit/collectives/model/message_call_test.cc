// SPDX-License-Identifier: Apache-2.0
// Predictions for GPU messages: never faster than the wires, an extrapolated time near the fully
// simulated one, and within bounds of the planner's closed form.
#include "collectives/model/ways.h"

#include <gtest/gtest.h>

#include <string>

#include "collectives/model/predictions.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_plan.h"
#include "tests/support/fixtures.h"

namespace rondo::model {
namespace {

GpuCluster message_cluster(const std::string& machine, int hosts, bool fabric = false) {
  auto cluster = GpuCluster::make(test::fixture(machine), {.hosts = hosts, .fabric = fabric});
  EXPECT_TRUE(cluster.ok()) << cluster.error().text;
  return std::move(*cluster);
}

CallRecord call_of(Collective collective, std::uint64_t bytes) {
  CallRecord record;
  record.count = bytes;
  record.collective = collective;
  record.type = DataType::kUint8;
  if (is_rooted(collective)) record.root = 1;
  return record;
}

constexpr Collective kAll[] = {Collective::kAllToAll, Collective::kGather, Collective::kScatter,
                               Collective::kSend};

double us_of(const GpuCluster& cluster, const CallRecord& record) {
  for (const Way& way : ways_of(cluster, record)) {
    if (way.name != "messages") continue;
    const auto prediction = predict(cluster, record, way);
    EXPECT_TRUE(prediction.ok()) << prediction.error().text;
    return prediction.ok() ? prediction->us : -1;
  }
  ADD_FAILURE() << "no messages for " << name(record.collective);
  return -1;
}

// Messages of the busiest rank, in one direction, that leave its host.
double crossing(const GpuCluster& cluster, Collective collective) {
  if (cluster.hosts() == 1) return 0;
  return collective == Collective::kSend ? 1 : cluster.ranks() - cluster.gpus_of_host();
}

// If every rank sends, each has its own port. A root that sends alone also uses its neighbour's
// port if that is as near: on a DGX A100 two ports of 25 GB/s, of which its PCIe link fills 31.5.
TEST(MessageCall, IsNoFasterThanTheWires) {
  const struct {
    const char* machine;
    double link_gbs, port_gbs, root_gbs;
  } kMachines[] = {{"dgx-a100", 300, 25, 31.5}, {"dgx-h100", 450, 50, 50}};
  constexpr std::uint64_t kBytes = 32 << 20;
  for (const auto& machine : kMachines) {
    for (const int hosts : {1, 2}) {
      const GpuCluster cluster = message_cluster(machine.machine, hosts);
      for (const Collective collective : kAll) {
        const double messages = collective == Collective::kSend ? 1 : cluster.ranks() - 1;
        const double across = crossing(cluster, collective);
        const double ports = is_rooted(collective) ? machine.root_gbs : machine.port_gbs;
        const double ns =
            std::max((messages - across) * kBytes / machine.link_gbs, across * kBytes / ports);
        EXPECT_GT(us_of(cluster, call_of(collective, kBytes)) * 1000, ns)
            << machine.machine << " x " << hosts << ", " << name(collective);
      }
    }
  }
}

// Exchanges between two hosts never reach a steady state, because ports are free or busy when
// messages arrive. So the whole call is simulated.
TEST(MessageCall, ExtrapolatedIsSimulated) {
  for (const int hosts : {1, 2}) {
    const GpuCluster cluster = message_cluster("dgx-h100", hosts);
    for (const Collective collective : kAll) {
      const CallRecord record = call_of(collective, 192 << 20);
      const auto some = time_messages(cluster, record);
      ASSERT_TRUE(some.ok()) << some.error().text;
      EXPECT_EQ(some->extrapolated, hosts == 1 || collective != Collective::kAllToAll)
          << name(collective) << " on " << hosts;
      const auto all =
          simulate_messages(cluster.machine(cuda::Protocol::kSimple),
                            message_call(cluster, collective, record.root, record.count));
      ASSERT_TRUE(all.ok()) << all.error().text;
      EXPECT_NEAR(some->ns / all->ns, 1, 0.02) << name(collective) << " on " << hosts;
    }
  }
}

// The planner's closed form against the simulation, where links and ports are as it assumes. It
// models neither messages that meet at ports in an exchange of few hosts, nor the small number of
// slots that fills a path.
TEST(MessageCall, IsCloseToThePlannersEstimate) {
  const struct {
    const char* machine;
    int hosts;
  } kMachines[] = {{"dgx-h100", 1}, {"dgx-a100", 2}, {"dgx-a100", 4}, {"gb200-nvl72", 4}};
  for (const auto& [machine, hosts] : kMachines) {
    const GpuCluster cluster = message_cluster(machine, hosts, /*fabric=*/true);
    for (const Collective collective : kAll) {
      for (const std::uint64_t bytes : {1 << 10, 256 << 10, 4 << 20, 64 << 20}) {
        const CallRecord record = call_of(collective, bytes);
        gpu::DevicePlan messages;
        messages.strategy = Strategy::kMessages;
        const double planned = gpu::device_ns(facts_of(cluster), record, messages) / 1000;
        const double simulated = us_of(cluster, record);
        EXPECT_TRUE(planned > 0.6 * simulated && planned < 1.2 * simulated)
            << name(collective) << " of " << bytes << " on " << hosts << ": " << planned << " us, "
            << simulated << " simulated";
      }
    }
  }
}

// If staging has room for all data, one kernel reads everything. Otherwise messages are used.
TEST(MessageCall, IsChosenWhereStagingHasNoRoom) {
  const GpuCluster cluster = message_cluster("dgx-a100", 1);
  for (const Way& way : ways_of(cluster, call_of(Collective::kAllToAll, 4 << 10)))
    EXPECT_EQ(way.chosen, way.name == "direct");
  for (const Way& way : ways_of(cluster, call_of(Collective::kAllToAll, 4 << 20)))
    EXPECT_EQ(way.chosen, way.name == "messages");
  EXPECT_EQ(ways_of(message_cluster("dgx-a100", 2), call_of(Collective::kGather, 4 << 10)).size(),
            1U);
}

}  // namespace
}  // namespace rondo::model
