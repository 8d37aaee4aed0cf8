#include "collectives/model/predictions.h"

#include <algorithm>
#include <numeric>

#include "collectives/gpu/explain_devices.h"
#include "collectives/gpu/span_plan.h"
#include "collectives/planner/device_costs.h"
#include "kernels/algorithms/hung_tree.h"

namespace rondo::model {

using cuda::Protocol;
using gpu::DevicePlan;
using gpu::DevicePlanFacts;
using gpu::direct_cost;
using gpu::kDirectCtasOfGpu;
using gpu::verb_cost;

namespace {

constexpr int kConnectionSlots = gpu::ConnectionShape{}.slots;

DevicePlanFacts facts_of(const GpuCluster& cluster) {
  if (cluster.hosts() > 1)
    return gpu::usual_span_facts(cluster.ranks(), cluster.hosts(),
                                 static_cast<int>(cluster.channels().rings.size()));
  return gpu::usual_facts(cluster.ranks(), cluster.ranks(), /*all_reach=*/true,
                          /*processes=*/true);
}

DevicePlanFacts limited_to(DevicePlanFacts facts, Collective collective, std::uint8_t algorithms,
                           Protocol protocol) {
  facts.algorithms.allowed[static_cast<std::size_t>(collective) - 1] = algorithms;
  facts.protocols = gpu::bit_of(protocol);
  return facts;
}

constexpr std::uint8_t bit(Algorithm algorithm) {
  return static_cast<std::uint8_t>(1 << static_cast<int>(algorithm));
}

bool has_ways(Collective collective) {
  return collective >= Collective::kAllReduce && collective <= Collective::kReduceScatter;
}

bool same(const DevicePlan& a, const DevicePlan& b) {
  return a.strategy == b.strategy && a.algorithm == b.algorithm && a.protocol == b.protocol;
}

bool is_played(const DevicePlan& plan) {
  return plan.strategy == Strategy::kConnected || plan.strategy == Strategy::kLLPush ||
         plan.strategy == Strategy::kShared;
}

// The kernels' channels are dealt out over the rings. Each is a stream of its own where that is not
// too much to play; else some of a ring are one, which then wait and send in step.
int streams_of(const GpuCluster& cluster, int channels) {
  const int rings = static_cast<int>(cluster.channels().rings.size());
  const int most = std::max(rings, kMostPlayed / cluster.ranks());
  return std::min(channels, most);
}

// Trees of some rings have the root where a reduction cannot end.
bool takes_root(const GpuCluster& cluster, const CallRecord& record, const DevicePlan& plan) {
  const AlgorithmRow* const row = find_row(plan.algorithm, record.collective, Where::kGpu);
  if (row == nullptr || row->roots == Roots::kAny) return true;
  const auto& rings = cluster.channels().rings;
  return std::all_of(rings.begin(), rings.end(), [&](const topology::ClusterRing& ring) {
    const auto at = std::find(ring.ranks.begin(), ring.ranks.end(), record.root);
    return hung_tree_takes(static_cast<int>(at - ring.ranks.begin()), cluster.ranks());
  });
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

// A call's input into staging and its output out of it.
double staging_ns(const CallRecord& record, const GpuCluster& cluster) {
  const auto bytes = static_cast<double>(record.count * size_of(record.type));
  const bool gathers = record.collective == Collective::kAllGather;
  const bool scatters = record.collective == Collective::kReduceScatter;
  const double blocks = (gathers ? cluster.ranks() : 1) + (scatters ? cluster.ranks() : 1);
  return bytes * std::max(blocks, 2.0) / (direct_cost().copy_gbs * kDirectCtasOfGpu);
}

}  // namespace

std::vector<Way> ways_of(const GpuCluster& cluster, const CallRecord& record,
                         const Wishes& wishes) {
  std::vector<Way> ways;
  if (!has_ways(record.collective) || record.count == 0) return ways;
  const DevicePlanFacts facts = facts_of(cluster);
  DevicePlanFacts wished = facts;
  wished.algorithms = wishes.algorithms;
  wished.protocols &= wishes.protocols;
  const auto usual = gpu::make_device_plan(wished, record);
  const auto add = [&](std::uint8_t algorithms, Protocol protocol, std::string_view name) {
    if ((facts.protocols & gpu::bit_of(protocol)) == 0) return;
    const auto plan =
        gpu::make_device_plan(limited_to(facts, record.collective, algorithms, protocol), record);
    if (!plan.ok() || !is_played(*plan) || !takes_root(cluster, record, *plan)) return;
    const auto known = [&](const Way& way) { return same(way.plan, *plan); };
    if (std::any_of(ways.begin(), ways.end(), known)) return;
    ways.push_back({std::string(name), *plan, usual.ok() && same(*usual, *plan)});
  };
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree})
    for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple})
      add(bit(algorithm), protocol, rondo::name(algorithm));
  const bool sums = record.collective == Collective::kAllReduce;
  add(bit(Algorithm::kOneShot) | bit(Algorithm::kDirect), Protocol::kLL, sums ? "oneshot" : "push");
  add(bit(Algorithm::kTwoShot) | bit(Algorithm::kDirect), Protocol::kSimple,
      sums ? "twoshot" : "direct");
  return ways;
}

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
  call.slots = kConnectionSlots;
  return call;
}

Result<Prediction> predict(const GpuCluster& cluster, const CallRecord& record, const Way& way) {
  const sim::Machine machine = cluster.machine(way.plan.protocol);
  const sim::SimCall call = call_of(cluster, record, way);
  Prediction prediction;
  double ns = gpu::kDevicePriors.of(gpu::DeviceRate::kLaunch);
  if (way.plan.strategy == Strategy::kShared) ns += staging_ns(record, cluster);
  const bool large = static_cast<int>(call.streams.size()) * cluster.ranks() > kMostPlayed;
  if (large && call.algorithm == Algorithm::kRing) {
    prediction.by = Prediction::By::kClosedForm;
    prediction.us = (ns + closed_form_ns(machine, call)) / 1000;
    return prediction;
  }
  RONDO_TRY(const sim::SimResult result, sim::simulate(machine, call));
  prediction.us = (ns + result.ns) / 1000;
  if (result.extrapolated) prediction.by = Prediction::By::kExtrapolation;
  if (result.busiest_wire >= 0) {
    prediction.busiest = cluster.wire_name(result.busiest_wire);
    prediction.busiest_share = result.busiest_share;
  }
  return prediction;
}

}  // namespace rondo::model
