#include "collectives/model/predictions.h"

#include <algorithm>
#include <numeric>

#include "collectives/gpu/channels/connection_layout.h"
#include "collectives/model/message_call.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_work.h"
#include "kernels/sim/sim_multicast.h"

namespace rondo::model {

using cuda::Protocol;
using gpu::DevicePlan;
using gpu::direct_cost;
using gpu::kDirectCtasOfGpu;
using gpu::verb_cost;

namespace {

constexpr double launch_ns() { return gpu::kDevicePriors.of(gpu::DeviceRate::kLaunch); }

// The kernels' channels are dealt out over the rings. Each is a stream of its own where that is not
// too much to play; else some of a ring are one, which then wait and send in step.
int streams_of(const GpuCluster& cluster, int channels) {
  const int rings = static_cast<int>(cluster.channels().rings.size());
  const int most = std::max(rings, kMostPlayed / cluster.ranks());
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

sim::SimCall direct_call(const GpuCluster& cluster, const CallRecord& record,
                         const DevicePlan& plan) {
  sim::SimCall call;
  call.where = Where::kHost;  // the text of the same traffic
  sim::SimStream stream;
  stream.order.resize(static_cast<std::size_t>(cluster.ranks()));
  std::iota(stream.order.begin(), stream.order.end(), 0);
  const bool push = plan.strategy == Strategy::kLLPush;
  call.cost = push ? verb_cost(Protocol::kLL) : direct_cost();
  stream.ctas = push ? plan.channels : kDirectCtasOfGpu;
  stream.count = stream.per_round = record.count;
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

// A call's input into staging, and its output out of it where that is not fetched from there.
double staging_ns(const CallRecord& record, const GpuCluster& cluster) {
  const auto bytes = static_cast<double>(record.count * size_of(record.type));
  const Collective which = record.collective;
  const bool scatters = which == Collective::kReduceScatter || which == Collective::kAllToAll ||
                        which == Collective::kScatter;
  const bool goes_out = reduces(which) || which == Collective::kBroadcast;
  const double blocks = (scatters ? cluster.ranks() : 1) + (goes_out ? 1 : 0);
  return bytes * blocks / (direct_cost().copy_gbs * kDirectCtasOfGpu);
}

// What was played, behind what had to come before it.
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
  if (cluster.ranks() > kMostMessageRanks) {
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
                          : direct_call(cluster, record, way.plan);
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
  const sim::SimCall call = call_of(cluster, record, way);
  double ns = launch_ns();
  if (way.plan.strategy == Strategy::kShared) ns += staging_ns(record, cluster);
  const bool large = static_cast<int>(call.streams.size()) * cluster.ranks() > kMostPlayed;
  if (large && call.algorithm == Algorithm::kRing) {
    Prediction prediction;
    prediction.by = Prediction::By::kClosedForm;
    prediction.us = (ns + closed_form_ns(machine, call)) / 1000;
    return prediction;
  }
  RONDO_TRY(const sim::SimResult result, sim::simulate(machine, call));
  return told(cluster, result, ns);
}

}  // namespace rondo::model
