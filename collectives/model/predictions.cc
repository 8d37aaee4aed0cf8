#include "collectives/model/predictions.h"

#include <algorithm>
#include <numeric>

#include "collectives/gpu/channels/connection_layout.h"
#include "collectives/model/message_call.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_work.h"
#include "kernels/sim/sim_multicast.h"
#include "kernels/sim/sim_staged.h"

namespace rondo::model {

using cuda::Protocol;
using gpu::DevicePlan;
using gpu::direct_cost;
using gpu::kDirectCtasOfGpu;
using gpu::verb_cost;

namespace {

constexpr double launch_ns() { return gpu::kDevicePriors.of(gpu::DeviceRate::kLaunch); }

// The kernels' channels are distributed over the rings. Each channel is simulated as a separate
// stream if that is not too much work; otherwise several channels of a ring share one stream and
// wait and send in step.
int streams_of(const GpuCluster& cluster, int channels) {
  const int rings = static_cast<int>(cluster.channels().rings.size());
  const int most = std::max(rings, kMaxPlayed / cluster.ranks());
  return std::min(channels, most);
}

sim::SimCall connected_call(const GpuCluster& cluster, const CallRecord& record,
                            const DevicePlan& plan) {
  sim::SimCall call;
  const auto& rings = cluster.channels().rings;
  const std::uint64_t width = size_of(record.type);
  const int channels = plan.channels, used = streams_of(cluster, channels);
  call.cost = verb_cost(plan.protocol);
  for (int number = 0; number < used; ++number) {
    sim::SimStream stream;
    stream.order = rings[static_cast<std::size_t>(number) % rings.size()].ranks;
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
  call.ctas = kDirectCtasOfGpu;
  call.count = record.count;
  call.element_bytes = size_of(record.type);
  call.cost = direct_cost();
  return call;
}

// The simulated time plus the time before it.
Prediction told(const GpuCluster& cluster, const sim::SimResult& result, double before_ns) {
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
  RONDO_TRY(const sim::SimResult result, play_messages(cluster, record));
  return told(cluster, result, launch_ns());
}

}  // namespace

sim::SimCall call_of(const GpuCluster& cluster, const CallRecord& record, const Way& way) {
  sim::SimCall call = way.plan.strategy == Strategy::kConnected
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
  if (way.plan.strategy == Strategy::kMessages) return predict_messages(cluster, record, way.plan);
  const sim::Machine machine = cluster.machine(way.plan.protocol);
  if (way.plan.strategy == Strategy::kMulticast) {
    RONDO_TRY(const sim::SimResult result,
              sim::simulate_multicast(machine, multicast_call(cluster, record, way.plan)));
    return told(cluster, result, launch_ns());
  }
  if (way.plan.strategy == Strategy::kShared) {
    RONDO_TRY(const sim::SimResult result,
              sim::simulate_staged(machine, staged_call(cluster, record)));
    return told(cluster, result, launch_ns());
  }
  const sim::SimCall call = call_of(cluster, record, way);
  const bool large = static_cast<int>(call.streams.size()) * cluster.ranks() > kMaxPlayed;
  if (large && call.algorithm == Algorithm::kRing) {
    Prediction prediction;
    prediction.by = Prediction::By::kClosedForm;
    prediction.us = (launch_ns() + closed_form_ns(machine, call)) / 1000;
    return prediction;
  }
  RONDO_TRY(const sim::SimResult result, sim::simulate(machine, call));
  return told(cluster, result, launch_ns());
}

}  // namespace rondo::model
