// SPDX-License-Identifier: Apache-2.0
#include "collectives/model/ways.h"

#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/gpu/plan/message_launches.h"
#include "collectives/planner/call_links.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/message_shape.h"
#include "kernels/sim/simulate.h"

namespace rondo::model {

using cuda::Protocol;
using gpu::DevicePlan;
using gpu::DevicePlanFacts;

DevicePlanFacts facts_of(const GpuCluster& cluster) {
  DevicePlanFacts facts =
      cluster.is_joined() ? gpu::usual_joined_facts(cluster.ranks(), cluster.hosts())
      : cluster.hosts() > 1
          ? gpu::usual_internode_facts(cluster.ranks(), cluster.hosts(),
                                       static_cast<int>(cluster.channels().rings.size()))
          : gpu::usual_facts(cluster.ranks(), cluster.ranks(), /*all_reach=*/true,
                             /*processes=*/true);
  facts.multicast = cluster.has_multicast();
  gpu::ChannelOrders orders;
  for (const topology::ClusterRing& ring : cluster.channels().rings)
    orders.rings.push_back({ring.ranks, {}});
  orders.rates = cluster.rates();
  orders.fill_facts(&facts);
  if (!facts.crosses())
    facts.max_channels = gpu::usual_channels(facts.wires, facts.ring_slot_bytes, facts.costs);
  facts.direct_ctas = gpu::direct_ctas(gpu::links_of(facts).direct_gbs, facts.costs);
  return facts;
}

namespace {

DevicePlanFacts limited_to(DevicePlanFacts facts, Collective collective, std::uint16_t algorithms,
                           Protocol protocol) {
  facts.algorithms.allowed[static_cast<std::size_t>(collective) - 1] = algorithms;
  facts.protocols = gpu::bit_of(protocol);
  return facts;
}

constexpr std::uint16_t bit(Algorithm algorithm) {
  return static_cast<std::uint16_t>(1 << static_cast<int>(algorithm));
}

bool has_ways(Collective collective) {
  return collective >= Collective::kAllReduce && collective <= Collective::kReduceScatter;
}

bool same(const DevicePlan& a, const DevicePlan& b) {
  return a.strategy == b.strategy && a.algorithm == b.algorithm && a.protocol == b.protocol;
}

bool is_simulated(const DevicePlan& plan) {
  return row_of(plan).traits.simulation != gpu::Simulation::kNone;
}

// Messages, and on one host a direct kernel on staging if the call fits there.
std::vector<Way> ways_of_messages(const GpuCluster& cluster, const CallRecord& record) {
  const DevicePlan messages = gpu::plan_of_messages();
  if (record.collective == Collective::kSend) return {{"messages", messages, true}};
  const auto usual = gpu::make_device_plan(facts_of(cluster), record);
  if (!usual.ok()) return {};
  std::vector<Way> ways{{"messages", messages, same(*usual, messages)}};
  if (row_of(*usual).traits.simulation == gpu::Simulation::kStaged)
    ways.push_back({"direct", *usual, true});
  return ways;
}

}  // namespace

std::vector<Way> ways_of(const GpuCluster& cluster, const CallRecord& record,
                         const Wishes& wishes) {
  std::vector<Way> ways;
  if (record.count == 0) return ways;
  if (is_of_messages(record.collective)) return ways_of_messages(cluster, record);
  if (!has_ways(record.collective)) return ways;
  const DevicePlanFacts facts = facts_of(cluster);
  DevicePlanFacts wished = facts;
  wished.algorithms = wishes.algorithms;
  wished.protocols &= wishes.protocols;
  const auto usual = gpu::make_device_plan(wished, record);
  const auto add = [&](std::uint16_t algorithms, Protocol protocol, std::string_view name) {
    if ((facts.protocols & gpu::bit_of(protocol)) == 0) return;
    const auto plan =
        gpu::make_device_plan(limited_to(facts, record.collective, algorithms, protocol), record);
    if (!plan.ok() || !is_simulated(*plan)) return;
    const auto known = [&](const Way& way) { return same(way.plan, *plan); };
    if (std::any_of(ways.begin(), ways.end(), known)) return;
    ways.push_back({std::string(name), *plan, usual.ok() && same(*usual, *plan)});
  };
  for (int a = 0; a < kAlgorithmCount; ++a)
    if (const auto algorithm = static_cast<Algorithm>(a);
        has_rows(algorithm, Verbs::kPrimitives, Where::kGpu))
      for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple})
        add(bit(algorithm), protocol, rondo::name(algorithm));
  const bool sums = record.collective == Collective::kAllReduce;
  add(bit(Algorithm::kOneShot) | bit(Algorithm::kDirect), Protocol::kLL, sums ? "oneshot" : "push");
  add(bit(Algorithm::kTwoShot) | bit(Algorithm::kDirect), Protocol::kSimple,
      sums ? "twoshot" : "direct");
  add(bit(Algorithm::kNvls), Protocol::kSimple, rondo::name(Algorithm::kNvls));
  return ways;
}

namespace {

using gpu::MessageLaunch;
using gpu::MessageMove;
using gpu::MessageShape;

// Planning only checks whether this rank has a buffer; its address does not matter.
const void* const kSent = &kSent;
void* const kReceived = const_cast<void**>(&kReceived);

// A message is simulated with at least this many slots of its channels, and with more until each
// further slot takes the same time.
constexpr sim::Evenness kEvenly{.minimum = 8, .tolerance = 5e-3};

class Messages {
 public:
  Messages(const GpuCluster& cluster, std::uint64_t bytes) : cluster_(cluster), bytes_(bytes) {
    const auto staging =
        static_cast<std::uint64_t>(std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), 0));
    const auto ranks = static_cast<std::size_t>(cluster.ranks());
    const std::uint64_t words = cuda::kMessageCountersBytes + cuda::kMessageUsedBytes;
    across_ = within_ = gpu::message_shape(gpu::message_bytes_of_pair(staging, ranks, false));
    if (cluster.is_joined()) return;
    across_ = gpu::message_shape(gpu::message_bytes_of_pair(staging, ranks, true) - words, true);
  }

  // Adds a message between two ranks; one or both are `rank`.
  void add(int from, int to, int rank) {
    MessageMove& move = moves_.emplace_back();
    move.from = from;
    move.to = to;
    move.bytes = bytes_;
    if (from == rank) move.send = kSent;
    if (to == rank) move.receive = kReceived;
    if (from != to) move.shape = shape(from, to);
  }
  std::vector<sim::SimMessageLaunch> take(int rank) {
    std::vector<sim::SimMessageLaunch> launches;
    for (const MessageLaunch& one :
         gpu::plan_message_launches(moves_, cluster_.ranks(), gpu::message_ctas(cluster_.hosts())))
      launches.push_back(simulated(one, rank));
    moves_.clear();
    return launches;
  }
  // Bytes that fill one slot of every channel of a pair; the maximum over all pairs.
  std::uint64_t quantum() const {
    const auto of = [](const MessageShape& shape) {
      return static_cast<std::uint64_t>(shape.channels) * shape.slot_bytes;
    };
    return cluster_.hosts() > 1 ? std::max(of(within_), of(across_)) : of(within_);
  }

 private:
  const MessageShape& shape(int from, int to) const {
    return cluster_.host_of(from) == cluster_.host_of(to) ? within_ : across_;
  }
  sim::SimMessageLaunch simulated(const MessageLaunch& launch, int rank) const {
    sim::SimMessageLaunch made;
    for (int cta = 0; cta < launch.ctas; ++cta) {
      std::vector<sim::SimMessage>& items = made.ctas.emplace_back();
      for (unsigned i = launch.args.first[cta]; i < launch.args.first[cta + 1]; ++i) {
        sim::SimMessage& one = items.emplace_back();
        one.bytes = launch.args.bytes[i];
        one.peer = rank;
        if (launch.args.copies(i)) {
          ++i;
          continue;
        }
        const int end = launch.args.end[i];
        one.sends = launch.args.sends(i);
        one.channel = end % cuda::kMessageChannels;
        one.peer = end / cuda::kMessageChannels / cuda::kDirections;
        one.slot_bytes = shape(rank, one.peer).slot_bytes;
      }
    }
    return made;
  }

  const GpuCluster& cluster_;
  const std::uint64_t bytes_;
  MessageShape within_, across_;
  std::vector<MessageMove> moves_;
};

void add_messages(Messages& messages, Collective which, int root, int rank, int ranks) {
  switch (which) {
    case Collective::kAllToAll:
      for (int peer = 0; peer < ranks; ++peer) {
        messages.add(rank, peer, rank);
        if (peer != rank) messages.add(peer, rank, rank);
      }
      return;
    case Collective::kGather:
      for (int from = 0; from < ranks; ++from)
        if (rank == root || rank == from) messages.add(from, root, rank);
      return;
    case Collective::kScatter:
      for (int to = 0; to < ranks; ++to)
        if (rank == root || rank == to) messages.add(root, to, rank);
      return;
    default:  // each rank sends to the next one
      messages.add(rank, (rank + 1) % ranks, rank);
      messages.add((rank + ranks - 1) % ranks, rank, rank);
      return;
  }
}

}  // namespace

sim::SimMessageCall message_call(const GpuCluster& cluster, Collective which, int root,
                                 std::uint64_t bytes) {
  Messages messages(cluster, bytes);
  sim::SimMessageCall call;
  call.slots = cuda::kMessageChannelSlots;
  call.window = cuda::kMessageWindow;
  call.cost = gpu::verb_cost(cuda::Protocol::kSimple);
  call.next_launch_ns = gpu::kDevicePriors.of(gpu::DeviceRate::kNextLaunch);
  for (int rank = 0; rank < cluster.ranks(); ++rank) {
    add_messages(messages, which, root, rank, cluster.ranks());
    call.launches.push_back(messages.take(rank));
  }
  return call;
}

Result<sim::SimResult> time_messages(const GpuCluster& cluster, const CallRecord& record) {
  const sim::Machine machine = cluster.machine(cuda::Protocol::kSimple);
  const std::uint64_t bytes = record.count * size_of(record.type);
  const std::uint64_t quantum = Messages(cluster, bytes).quantum();
  const auto simulated = [&](std::uint64_t some) {
    return simulate_messages(machine, message_call(cluster, record.collective, record.root, some));
  };
  const double slots = static_cast<double>(bytes) / static_cast<double>(quantum);
  return sim::simulate_until_even(
      slots, kEvenly, [&](std::uint64_t some) { return simulated(some * quantum); },
      [&] { return simulated(bytes); });
}

}  // namespace rondo::model
