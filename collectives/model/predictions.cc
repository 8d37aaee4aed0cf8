// SPDX-License-Identifier: Apache-2.0
#include "collectives/model/predictions.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "collectives/gpu/plan/connection_layout.h"
#include "collectives/model/ways.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/explain.h"
#include "kernels/algorithms/tree.h"
#include "kernels/sim/sim_barriers.h"

namespace rondo::model {

using cuda::Protocol;
using gpu::DevicePlan;
using gpu::direct_cost;
using gpu::verb_cost;

namespace {

// A launch of this many CTAs, as device_ns() counts it.
constexpr double launch_ns(int ctas = 1) {
  return gpu::kDevicePriors.of(gpu::DeviceRate::kLaunch) +
         ctas * gpu::kDevicePriors.of(gpu::DeviceRate::kCta);
}

// The kernels' channels are distributed over the rings. Each channel is simulated as a separate
// stream if that is not too much work; otherwise several channels of a ring share one stream and
// wait and send in step. Channels of different trees never do.
int streams_of(const GpuCluster& cluster, const DevicePlan& plan) {
  const int rings = static_cast<int>(cluster.channels().rings.size());
  const int maximum = std::max(2 * rings, kMaxSimulated / cluster.ranks() / 2 * 2);
  return std::min(plan.channels, maximum);
}

sim::SimCall connected_call(const GpuCluster& cluster, const CallRecord& record,
                            const DevicePlan& plan) {
  sim::SimCall call;
  const auto& rings = cluster.channels().rings;
  const std::uint64_t width = size_of(record.type);
  const int channels = plan.channels, used = streams_of(cluster, plan);
  call.cost = verb_cost(plan.protocol);
  for (int number = 0; number < used; ++number) {
    sim::SimStream stream;
    stream.order = rings[static_cast<std::size_t>(number) % rings.size()].ranks;
    if (plan.one_tree) stream.tree = tree_of_channel(number, used);
    stream.ctas = channels / used + (number < channels % used ? 1 : 0);
    const auto ctas = static_cast<std::uint64_t>(stream.ctas);
    stream.count =
        std::max<std::uint64_t>(record.count * ctas / static_cast<std::uint64_t>(channels), 1);
    stream.per_round = plan.per_round * ctas;
    stream.slot_bytes = plan.slice * width * ctas;
    call.streams.push_back(std::move(stream));
  }
  return call;
}

// All channels as one stream, whose rounds are in step.
sim::SimCall push_call(const GpuCluster& cluster, const CallRecord& record,
                       const DevicePlan& plan) {
  sim::SimCall call;
  sim::SimStream stream;
  stream.order.resize(static_cast<std::size_t>(cluster.ranks()));
  std::iota(stream.order.begin(), stream.order.end(), 0);
  call.cost = verb_cost(Protocol::kLL);
  stream.ctas = plan.channels;
  stream.count = record.count;
  stream.per_round = plan.per_round * static_cast<std::uint64_t>(plan.channels);
  call.streams.push_back(std::move(stream));
  return call;
}

sim::SimMulticastCall multicast_call(const GpuCluster& cluster, const CallRecord& record,
                                     const DevicePlan& plan) {
  sim::SimMulticastCall call;
  call.collective = record.collective;
  call.ranks = cluster.ranks();
  call.ctas = plan.channels;
  call.count = record.count;
  call.per_round = plan.per_round;
  call.grain = plan.grain;
  call.element_bytes = size_of(record.type);
  call.cost = gpu::multicast_cost(cluster.compute());
  return call;
}

sim::SimStagedCall staged_call(const GpuCluster& cluster, const CallRecord& record) {
  sim::SimStagedCall call;
  call.collective = record.collective;
  call.ranks = cluster.ranks();
  call.root = std::max(record.root, 0);
  const gpu::DevicePlanFacts facts = facts_of(cluster);
  call.ctas = facts.direct_ctas;
  call.count = record.count;
  if (facts.shared_bytes > 0)
    call.piece = gpu::staged_elements(facts.shared_bytes, record, cluster.ranks());
  call.element_bytes = size_of(record.type);
  call.cost = direct_cost();
  return call;
}

// Of the hops of connections (device_costs.h).
double hop_share(gpu::Simulation simulation) {
  switch (simulation) {
    case gpu::Simulation::kPush:
      return gpu::kPushShare;
    case gpu::Simulation::kStaged:
    case gpu::Simulation::kMulticast:
      return gpu::kBarrierShare;
    case gpu::Simulation::kConnected:
    case gpu::Simulation::kMessages:
    case gpu::Simulation::kNone:
      break;
  }
  return 1;
}

// The simulated time plus the time before it.
Prediction prediction_of(const GpuCluster& cluster, const sim::SimResult& result,
                         double before_ns) {
  Prediction prediction;
  prediction.us = (before_ns + result.ns) / 1000;
  if (result.extrapolated) prediction.by = Prediction::By::kExtrapolation;
  if (result.busiest_wire >= 0) {
    prediction.busiest = cluster.wire_name(result.busiest_wire);
    prediction.busiest_share = result.busiest_share;
  }
  return prediction;
}

Result<Prediction> predict_messages(const GpuCluster& cluster, const CallRecord& record,
                                    const DevicePlan& plan) {
  Prediction prediction;
  if (cluster.ranks() > kMaxMessageRanks) {
    prediction.by = Prediction::By::kClosedForm;
    prediction.us = gpu::device_ns(facts_of(cluster), record, plan) / 1000;
    return prediction;
  }
  RONDO_TRY(const sim::SimResult result, time_messages(cluster, record));
  return prediction_of(cluster, result, launch_ns());
}

}  // namespace

sim::SimCall call_of(const GpuCluster& cluster, const CallRecord& record, const Way& way) {
  sim::SimCall call = row_of(way.plan).traits.simulation == gpu::Simulation::kConnected
                          ? connected_call(cluster, record, way.plan)
                          : push_call(cluster, record, way.plan);
  call.algorithm = way.plan.algorithm;
  call.collective = record.collective;
  call.ranks = cluster.ranks();
  call.root = std::max(record.root, 0);
  call.element_bytes = size_of(record.type);
  call.grain = way.plan.grain;
  call.slots = facts_of(cluster).slots;
  return call;
}

Result<Prediction> predict(const GpuCluster& cluster, const CallRecord& record, const Way& way) {
  const gpu::Simulation simulation = row_of(way.plan).traits.simulation;
  const sim::Machine machine = cluster.machine(way.plan.protocol, hop_share(simulation));
  sim::SimResult result;
  switch (simulation) {
    case gpu::Simulation::kMessages:
      return predict_messages(cluster, record, way.plan);
    case gpu::Simulation::kMulticast: {
      RONDO_TRY(result,
                sim::simulate_multicast(machine, multicast_call(cluster, record, way.plan)));
      return prediction_of(cluster, result, launch_ns(way.plan.channels));
    }
    case gpu::Simulation::kStaged: {
      RONDO_TRY(result, sim::simulate_staged(machine, staged_call(cluster, record)));
      return prediction_of(cluster, result, launch_ns(way.plan.channels));
    }
    case gpu::Simulation::kConnected:
    case gpu::Simulation::kPush:
      break;
    case gpu::Simulation::kNone:
      return fail(StatusCode::kInternalError, "{} cannot be simulated", way.name);
  }
  const sim::SimCall call = call_of(cluster, record, way);
  const bool large = static_cast<int>(call.streams.size()) * cluster.ranks() > kMaxSimulated;
  if (large && call.algorithm == Algorithm::kRing) {
    Prediction prediction;
    prediction.by = Prediction::By::kClosedForm;
    prediction.us = (launch_ns(way.plan.channels) + closed_form_ns(machine, call)) / 1000;
    return prediction;
  }
  RONDO_TRY(result, sim::simulate(machine, call));
  return prediction_of(cluster, result, launch_ns(way.plan.channels));
}

namespace {

struct Predicted {
  Way way;
  Prediction prediction;
};

std::string text_of(const Way& way) {
  return fmt::format("{} by {}", way.name, gpu::name(way.plan.protocol));
}

const Way* chosen_of(const std::vector<Way>& ways) {
  const auto at = std::find_if(ways.begin(), ways.end(), [](const Way& way) { return way.chosen; });
  return at == ways.end() ? nullptr : &*at;
}

// The next size, by factors of two, at which another way is chosen.
ExplainRow change_of(const GpuCluster& cluster, const CallRecord& record, const Wishes& wishes,
                     const Way& now) {
  constexpr int kFactors = 24;
  CallRecord other = record;
  for (int k = 0; k < kFactors; ++k) {
    other.count *= 2;
    const std::vector<Way> ways = ways_of(cluster, other, wishes);
    const Way* const way = chosen_of(ways);
    if (way == nullptr) break;
    if (way->name == now.name && way->plan.protocol == now.plan.protocol) continue;
    return {"changes at",
            bytes_text(other.count * size_of(other.type)),
            text_of(*way),
            {{"changes_at_bytes", static_cast<double>(other.count * size_of(other.type))}}};
  }
  return {"changes at", "no larger size", ""};
}

ExplainRow bound_of(const GpuCluster& cluster, double bus_gbs) {
  const double bound = cluster.channels().bound_gbs;
  return {"bound",
          fmt::format("{:.1f} GB/s", bound),
          fmt::format("upper limit of rings by the links' bandwidth; this is {:.0f} % of it",
                      100 * bus_gbs / bound),
          {{"bound_gbs", bound}}};
}

}  // namespace

Result<std::vector<ExplainRow>> explain_prediction(const GpuCluster& cluster,
                                                   const CallRecord& record, BusBytes bytes,
                                                   const Wishes& wishes) {
  std::vector<Predicted> all;
  for (const Way& way : ways_of(cluster, record, wishes)) {
    RONDO_TRY(Prediction prediction, predict(cluster, record, way));
    all.push_back({way, std::move(prediction)});
  }
  const auto is_chosen = [](const Predicted& one) { return one.way.chosen; };
  const auto chosen = std::find_if(all.begin(), all.end(), is_chosen);
  std::vector<ExplainRow> rows;
  if (chosen == all.end()) {
    rows.push_back({"predicted", "nothing", "the chosen algorithm is not simulated"});
    return rows;
  }
  const double bus_gbs = bytes.moved * bytes.factor / chosen->prediction.us / 1000;
  rows.push_back({"predicted",
                  fmt::format("{:.1f} us", chosen->prediction.us),
                  fmt::format("{:.1f} GB/s of bus bandwidth; from assumed costs "
                              "(collectives/planner/device_costs.h), not measured",
                              bus_gbs),
                  {{"predicted_us", chosen->prediction.us}, {"bus_gbs", bus_gbs}}});
  if (!chosen->prediction.busiest.empty())
    rows.push_back({"busiest wire",
                    chosen->prediction.busiest,
                    fmt::format("{:.0f} % of the time", 100 * chosen->prediction.busiest_share),
                    {{"busiest_wire_share", chosen->prediction.busiest_share}}});
  rows.push_back(bound_of(cluster, bus_gbs));
  if (cluster.is_tray())
    rows.push_back(
        {"host", "one tray of the rack",
         cluster.is_joined()
             ? "NVLink joins rings, trees, LL push and messages of all trays (NCCL_MNNVL_ENABLE)"
             : "other trays are reached through network ports: NVLink between hosts is not used "
               "(NCCL_MNNVL_ENABLE=1)"});
  const Predicted* other = nullptr;
  for (const Predicted& one : all)
    if (!one.way.chosen && (other == nullptr || one.prediction.us < other->prediction.us))
      other = &one;
  if (other != nullptr)
    rows.push_back({"next best",
                    text_of(other->way),
                    fmt::format("{:.1f} us{}", other->prediction.us,
                                other->prediction.us < chosen->prediction.us
                                    ? ": by this model faster than the chosen algorithm"
                                    : ""),
                    {{"next_best_us", other->prediction.us}}});
  rows.push_back(change_of(cluster, record, wishes, chosen->way));
  return rows;
}

}  // namespace rondo::model
