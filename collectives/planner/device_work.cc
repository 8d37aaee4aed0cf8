// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_work.h"

#include <algorithm>
#include <limits>

#include "collectives/planner/call_links.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/message_work.h"
#include "collectives/planner/work_estimate.h"
#include "kernels/algorithms/tree.h"

namespace rondo::gpu {

// One call on these GPUs.
struct DeviceCall {
  DeviceCall(const DevicePlanFacts& with, const CallRecord& made)
      : facts(with),
        record(made),
        ranks(facts.ranks),
        hosts(facts.hosts),
        bytes(static_cast<double>(record.count * size_of(record.type))),
        collective(record.collective),
        costs(facts.costs),
        links(links_of(facts)),
        slots(facts.slots) {}

  const DevicePlanFacts& facts;
  const CallRecord& record;
  double ranks, hosts;
  double bytes;  // of the call's count
  Collective collective;
  const DeviceCosts& costs;
  CallLinks links;
  double slots;

  // Time of `hops` hops on the slowest path; `across` of them lead to another host.
  double hops_ns(cuda::Protocol protocol, double hops, double across) const {
    if (hosts == 1) return hops * hop_ns(protocol, links.near, costs);
    return (hops - across) * hop_ns(protocol, links.near, costs) +
           across * hop_ns(protocol, LinkClass::kNetwork, costs);
  }
  double slowest_hop_ns(cuda::Protocol protocol) const {
    return hop_ns(protocol, hosts > 1 ? LinkClass::kNetwork : links.near, costs);
  }
  bool by_blocks() const {
    return collective == Collective::kAllGather || collective == Collective::kReduceScatter;
  }
};

namespace {

double at_least_one_round(double rounds) { return rounds > 1 ? rounds : 1; }

// Of a plan that GPUs do not run.
double never() { return std::numeric_limits<double>::infinity(); }

// Bytes that the busiest rank of a direct kernel sends or receives: shares of the call, once to the
// ranks that work on them and once to the ranks that want the result; or one block per peer.
double moved_bytes(const DeviceCall& call) {
  const double others = call.ranks - 1;
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return 2 * call.bytes * others / call.ranks;
    default:
      return call.bytes * others;
  }
}

// Times of a chunk of a channel: the CTA's work on one of its slots, its time on a port, its share
// of the wires that all channels use.
struct ChunkTimes {
  // chunk: bytes of the chunk. slot: bytes of a slot.
  ChunkTimes(const DeviceCall& call, const DevicePlan& plan, double chunk, double slot) {
    const sim::VerbCost verb = verb_cost(plan.protocol, call.costs);
    slots = slot > 0 ? std::max(chunk / slot, 1.0) : 1;
    copy_ns = verb.fixed_ns + chunk / slots / verb.copy_gbs;
    sum_ns = verb.fixed_ns + chunk / slots / verb.sum_gbs;
    const double alone = chunk * verb.wire_bytes / call.links.ring_gbs;
    shared_ns = alone * plan.channels / std::min(plan.channels, call.links.rings);
    port_ns = call.hosts > 1 ? alone / slots : 0;
  }
  double slots;                                // slots of the chunk; each is a job
  double copy_ns, sum_ns, port_ns, shared_ns;  // per slot; shared_ns: per chunk
};

// A ring (ring.h): a number of steps for each part; two rounds overlap by only one step. Slots of a
// chunk are pipelined: one is processed while another is in flight, and the last ones end later. A
// CTA has one job more than steps: the first sends, the last only receives.
double cycle_ns(const DeviceCall& call, const DevicePlan& plan, double rounds, double of_channel,
                double slot) {
  const bool both = call.collective == Collective::kAllReduce;
  const double parts = both ? call.ranks : 1, ways = both ? 2 : 1, steps = call.ranks - 1;
  const ChunkTimes chunk(call, plan, of_channel / rounds / parts, slot);
  const double work = both                       ? chunk.sum_ns + chunk.copy_ns
                      : reduces(call.collective) ? chunk.sum_ns
                                                 : chunk.copy_ns;
  const double across = call.hosts > 1 ? ways * steps * call.hosts / call.ranks : 0;
  const double way =
      steps * work + across * chunk.port_ns + call.hops_ns(plan.protocol, ways * steps, across);
  // A rank fills a slot after its next rank has emptied it; that path is as long.
  const double returned =
      steps * (work + ways * 2 * call.slowest_hop_ns(plan.protocol)) / call.slots;
  const double busy = chunk.slots * (steps * work + chunk.copy_ns);
  return rounds * std::max({way, busy, chunk.slots * returned, ways * steps * chunk.shared_ns}) +
         (chunk.slots - 1) * work / ways;
}

// A chain: chunks are pipelined, limited by the slots that return between two ranks.
double chain_ns(const DeviceCall& call, const DevicePlan& plan, double rounds, double of_channel) {
  const ChunkTimes chunk(call, plan, of_channel / rounds, 0);
  const double work = reduces(call.collective) ? chunk.sum_ns : chunk.copy_ns;
  const double returned = (work + 2 * call.slowest_hop_ns(plan.protocol)) / call.slots;
  return (call.ranks - 1) * work + (call.hosts - 1) * chunk.port_ns +
         call.hops_ns(plan.protocol, call.ranks - 1, call.hosts - 1) +
         (rounds - 1) * std::max({work + chunk.port_ns, returned, chunk.shared_ns});
}

// Two trees, each with half of the bytes: both in every channel, where a rank has two children in
// one of them, or one in each half of the channels.
double tree_ns(const DeviceCall& call, const DevicePlan& plan, double rounds, double of_channel) {
  const bool both = call.collective == Collective::kAllReduce;
  const double trees = plan.one_tree ? 1 : 2;
  const ChunkTimes chunk(call, plan, of_channel / rounds / trees, 0);
  const double ways = both ? 2 : 1, depth = log2_of(call.ranks);
  const double work = reduces(call.collective) ? chunk.sum_ns : chunk.copy_ns;
  // One of the trees is shifted by a rank, so its paths cross hosts once more.
  const double across = call.hosts > 1 ? std::min(log2_of(call.hosts) + 1, depth) : 0;
  const double hops = call.hops_ns(plan.protocol, depth, across);
  const double kept = plan.one_tree ? 0 : kTreeSlotsKept;
  const double returned = (work + 2 * call.slowest_hop_ns(plan.protocol)) / (call.slots - kept);
  // With both trees, a leaf of the one waits for chunks that are a whole path behind.
  const bool lags = call.hosts > 1 && !plan.one_tree;
  const double waits = lags ? 2 * hops / (kTreeLead + 1) : 0;
  // Time on the busiest wire for all channels' chunks of both trees.
  const double gbs = both ? call.links.both_gbs : call.links.tree_gbs * kRootedShare;
  const double wire_bytes = verb_cost(plan.protocol, call.costs).wire_bytes;
  const double shared = of_channel / rounds * plan.channels * wire_bytes / gbs;
  const double first =
      ways * (depth * (work + kTreeFirst * shared) + across * chunk.port_ns + hops);
  const double jobs = both ? kTreeJobs : reduces(call.collective) ? kTreeSums : kTreeCopies;
  return first + (rounds - 1) * std::max({jobs * trees / 2 * work, returned, waits, shared});
}

}  // namespace

double connected_ns(const DeviceCall& call, const DevicePlan& plan) {
  const auto count = static_cast<double>(call.record.count);
  const double of_round = static_cast<double>(plan.channels) * static_cast<double>(plan.per_round);
  const double rounds = of_round > 0 ? at_least_one_round(count / of_round) : 1;
  const double of_channel = call.bytes / plan.channels;
  const double slot = static_cast<double>(plan.slice) * call.bytes / count;
  switch (plan.algorithm) {
    case Algorithm::kTree:
      return tree_ns(call, plan, rounds, of_channel);
    case Algorithm::kRing:
      return call.collective == Collective::kAllReduce || call.by_blocks()
                 ? cycle_ns(call, plan, rounds, of_channel, slot)
                 : chain_ns(call, plan, rounds, of_channel);
    case Algorithm::kOneShot:
    case Algorithm::kTwoShot:
    case Algorithm::kDirect:
    case Algorithm::kRecursive:
    case Algorithm::kHierarchical:
    case Algorithm::kNvls:
      break;
  }
  return never();
}

// A round is pushed after the previous one was taken: half of its lines' work, the transfer on the
// link into which all ranks push at once, the other half.
double ll_push_ns(const DeviceCall& call, const DevicePlan& plan) {
  const sim::VerbCost verb = verb_cost(cuda::Protocol::kLL, call.costs);
  const double of_round = static_cast<double>(plan.channels) * static_cast<double>(plan.per_round);
  const double rounds =
      of_round > 0 ? at_least_one_round(static_cast<double>(call.record.count) / of_round) : 1;
  const double bytes = call.bytes * (call.ranks - 1) / rounds;
  const double half = bytes / (plan.channels * verb.copy_gbs) / 2;
  const double way = bytes * verb.wire_bytes / call.links.direct_gbs +
                     hop_ns(cuda::Protocol::kLL, call.links.near_all, call.costs);
  return rounds * (std::max(half, way) + half);
}

namespace {

// Two barriers around each device's reads and writes of the others' data. Staged: data that a rank
// sends is copied in before, and results not written directly to its buffer are copied out after.
double synchronised_ns(const DeviceCall& call, bool staged) {
  const double ctas = call.facts.direct_ctas;
  const double gbs =
      std::min(ctas * direct_cost(call.costs).sum_gbs, call.links.direct_gbs * kDirectEfficiency);
  const double more = call.by_blocks() ? call.bytes : 0;  // gathered data is also written
  const double ns = 2 * hop_ns(cuda::Protocol::kSimple, call.links.near_all, call.costs) +
                    (moved_bytes(call) + more) / gbs;
  if (!staged) return ns;
  const double in = call.collective == Collective::kReduceScatter ? call.ranks : 1;
  const double out = reduces(call.collective) || call.collective == Collective::kBroadcast ? 1 : 0;
  return ns + (in + out) * call.bytes / (ctas * direct_cost(call.costs).copy_gbs);
}

}  // namespace

double in_place_ns(const DeviceCall& call, const DevicePlan&) {
  return synchronised_ns(call, false);
}
double staged_ns(const DeviceCall& call, const DevicePlan&) { return synchronised_ns(call, true); }
double messages_ns(const DeviceCall& call, const DevicePlan&) {
  return messages_ns(call.facts, call.record);
}

// The switch adds or copies: a rank sends its data once, in rounds of its CTAs.
double multicast_ns(const DeviceCall& call, const DevicePlan& plan) {
  const double blocks = call.by_blocks() ? call.ranks : 1;
  const double gbs =
      std::min(plan.channels * kMulticastCtaGbs, call.links.direct_gbs * kMulticastGain);
  return 2 * hop_ns(cuda::Protocol::kSimple, call.links.near_all, call.costs) + kMulticastFirstNs +
         blocks * call.bytes / gbs;
}

// One kernel reads the data and writes the results of all ranks; with several devices, over a link.
double direct_ns(const DeviceCall& call, const DevicePlan&) {
  const double moved = call.bytes * call.ranks * 2;
  return call.facts.devices == 1 ? moved * call.costs.of(DeviceRate::kMemory)
                                 : moved / call.links.direct_gbs;
}

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan) {
  return facts.costs.of(DeviceRate::kLaunch) + plan.channels * facts.costs.of(DeviceRate::kCta) +
         row_of(plan).work(DeviceCall(facts, record), plan);
}

std::uint32_t rates_of(const DevicePlanFacts& facts, const CallRecord& record,
                       const DevicePlan& plan) {
  constexpr double kMuch = 2;  // large enough to show rates that another rate partly hides
  const double ns = device_ns(facts, record, plan);
  std::uint32_t rates = 0;
  for (const DeviceRateInfo& info : kDeviceRateTable) {
    DevicePlanFacts other = facts;
    other.costs.ns[static_cast<std::size_t>(info.rate)] *= kMuch;
    if (device_ns(other, record, plan) != ns) rates |= bit_of(info.rate);
  }
  return rates;
}

double predicted_ns(const DevicePlanFacts& facts, const CallRecord& record) {
  if (record.collective >= Collective::kSend) return device_ns(facts, record, plan_of_messages());
  const Result<DevicePlan> plan = make_device_plan(facts, record);
  return plan.ok() ? device_ns(facts, record, *plan) : 0;
}

}  // namespace rondo::gpu
