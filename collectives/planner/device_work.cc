// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_work.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "collectives/planner/call_links.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/host_work.h"
#include "collectives/planner/message_shape.h"
#include "kernels/algorithms/tree.h"
#include "kernels/cuda/ll_push_args.h"

namespace rondo::gpu {

// One call on these GPUs.
struct DeviceCall {
  DeviceCall(const DevicePlanFacts& with, const CallRecord& made)
      : facts(with),
        record(made),
        ranks(facts.ranks),
        hosts(facts.crosses() ? facts.hosts : 1),
        bytes(static_cast<double>(record.count * size_of(record.type))),
        collective(record.collective),
        costs(facts.costs),
        links(links_of(facts)),
        slots(facts.slots) {}

  const DevicePlanFacts& facts;
  const CallRecord& record;
  double ranks, hosts;  // joined by a network
  double bytes;         // of the call's count
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

// The most channels that a ring has.
double channels_of_ring(const DeviceCall& call, const DevicePlan& plan) {
  const int channels = (plan.channels + call.links.rings - 1) / call.links.rings;
  return channels;
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
    wire_ns = chunk * verb.wire_bytes / call.links.ring_gbs;
    shared_ns = wire_ns * channels_of_ring(call, plan);
    port_ns = call.hosts > 1 ? wire_ns / slots : 0;
  }
  double slots;                     // slots of the chunk; each is a job
  double copy_ns, sum_ns, port_ns;  // per slot
  double wire_ns, shared_ns;        // per chunk: alone; with all channels of the ring
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

// Time from the first chunk to the last one of a pipeline that takes `pace` a chunk. The first
// chunks find free slots; each later one waits until the next rank has emptied a slot, a `trip`
// after it was filled.
double stream_ns(double chunks, double slots, double pace, double trip) {
  assert(chunks >= 1 && slots >= 1 && pace >= 0 && trip >= 0);
  return std::max(std::min(chunks, slots) - 1, 0.0) * pace +
         std::max(chunks - slots, 0.0) * std::max(pace, trip / slots);
}

// A chain: chunks are pipelined, limited by the slots that return between two ranks. It leaves the
// root's host and comes back to it, except where the ring enters the host at the root.
double chain_ns(const DeviceCall& call, const DevicePlan& plan, double rounds, double of_channel) {
  assert(rounds >= 1 && of_channel >= 0);
  const ChunkTimes chunk(call, plan, of_channel / rounds, 0);
  const double work = reduces(call.collective) ? chunk.sum_ns : chunk.copy_ns;
  const double hops = call.ranks - 1, across = call.hosts > 1 ? std::min(call.hosts, hops) : 0;
  // Within a host the wire of a hop is ring_gbs; chunks of all channels enter the first at once.
  const double wire = call.hosts > 1 ? 0 : chunk.wire_ns, hop = std::max(work, wire);
  const double queue = std::max(chunk.shared_ns - std::max(hop, chunk.wire_ns), 0.0);
  // The last rank has a job, too.
  const double first = hops * hop + work + queue + across * chunk.port_ns +
                       call.hops_ns(plan.protocol, hops, across);
  const double trip = 2 * work + chunk.port_ns + 2 * call.slowest_hop_ns(plan.protocol);
  return first + stream_ns(rounds, call.slots, std::max(work, chunk.shared_ns), trip);
}

// The longest path of a chunk in the double tree: hops, and those of them that cross hosts.
struct TreePath {
  explicit TreePath(const DeviceCall& call) {
    const double depth = log2_of(call.ranks), hosts_depth = log2_of(call.hosts);
    hops = depth;
    // One of the trees is shifted by a rank, so its paths cross hosts once more.
    across = call.hosts > 1 ? std::min(hosts_depth + 1, depth) : 0;
    if (call.collective == Collective::kAllReduce || call.hosts == 2) return;
    // From the root, a leaf of one of the trees, up to its top and down again.
    hops = std::max(2 * (depth - 1), 1.0);
    across = std::min(2 * hosts_depth, hops);
  }
  double hops, across;
};

// Rate of a call with a root over the double trees. Its wires are known for rank 0, if at all. A
// root on links of its own has half of the data to move for each neighbour in both trees, as other
// ranks for two of them. Elsewhere trees from the root meet on wires of several GPUs.
double rooted_gbs(const DeviceCall& call) {
  assert(call.record.root < call.facts.ranks);
  const int root = call.record.root, ranks = call.facts.ranks;
  const double known = reduces(call.collective) ? call.links.reduce_gbs : call.links.broadcast_gbs;
  if (root == 0 && known > 0) return known;
  if (call.facts.permuted) return call.links.tree_gbs * kRootedShare;
  double neighbours = 0;
  for (const int tree : {0, 1}) {
    const TreeLinks links = double_tree(root, ranks, tree);
    neighbours += links.children() + (links.parent != kNoRank ? 1 : 0);
  }
  const bool own_links = call.hosts == 1 && call.links.near_all != LinkClass::kPci;
  return call.links.tree_gbs * std::min(2 / neighbours, own_links ? 1 : kRootedShare);
}

// Two trees, each with half of the bytes: both in every channel, where a rank has two children in
// one of them, or one in each half of the channels.
double tree_ns(const DeviceCall& call, const DevicePlan& plan, double rounds, double of_channel) {
  assert(rounds >= 1 && of_channel >= 0);
  const bool both = call.collective == Collective::kAllReduce;
  const double trees = plan.one_tree ? 1 : 2;
  const ChunkTimes chunk(call, plan, of_channel / rounds / trees, 0);
  const TreePath path(call);
  const double ways = both ? 2 : 1;
  const double work = reduces(call.collective) ? chunk.sum_ns : chunk.copy_ns;
  const double hops = call.hops_ns(plan.protocol, path.hops, path.across);
  // With both trees, a leaf of the one waits for chunks that are a whole path behind.
  const bool lags = call.hosts > 1 && !plan.one_tree;
  const double waits = lags ? 2 * hops / (kTreeLead + 1) : 0;
  // Time on the busiest wire for all channels' chunks of both trees, in one direction or both.
  const double wire_bytes = of_channel / rounds * channels_of_ring(call, plan) * call.links.rings *
                            verb_cost(plan.protocol, call.costs).wire_bytes;
  const double one_way = wire_bytes / (both ? call.links.tree_gbs : rooted_gbs(call));
  const double shared = both ? wire_bytes / call.links.both_gbs : one_way;
  // The last rank has a job, too, and with both trees a rank has one for each.
  const double ends = both ? 0 : trees;
  const double path_ns = (path.hops + ends) * work + path.across * chunk.port_ns + hops;
  const double slots = std::max(call.slots - (plan.one_tree ? 0 : kTreeSlotsKept), 1.0);
  // A path passes the busiest wire twice, up and down; once all slots are in use, chunks wait on
  // every hop.
  const double queued = ways * log2_of(call.ranks) * kTreeFirst;
  const double first = ways * path_ns + (rounds > slots ? queued : std::min(queued, 2.0)) * shared;
  const double jobs = both ? kTreeJobs : kRootedJobs;
  const double pace = std::max({jobs * trees / 2 * work, waits, both ? one_way : chunk.port_ns});
  // With both trees a job of the other one comes between.
  const double trip = (1 + trees) * work + chunk.port_ns + 2 * call.slowest_hop_ns(plan.protocol);
  // Chunks do not reach the busiest wire all at once: those that go down follow those that go up by
  // the path's time. A call with a root has it at the root's host, a crossing away from its peers.
  const double far = hop_ns(plan.protocol, LinkClass::kNetwork, call.costs);
  const double later = both ? path_ns : std::clamp((path.across - 1) / 2, 0.0, 1.0) * far;
  // Until the slots between hosts are full, chunks that go up run ahead of those that go down, so
  // the busiest wire of that direction sets the pace.
  const double ahead = both ? std::min(rounds, 2 * log2_of(call.hosts) * slots) : 0;
  const double wires = (rounds - 1) * shared + ahead * std::max(one_way - shared / 2, 0.0) - later;
  return first + std::max(stream_ns(rounds, slots, pace, trip), wires);
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

namespace {

// Reads of the device's own memory that follow each other where a thread cannot have all senders'
// lines in flight: sums read groups of kLLPushAtOnce, all-gathers one sender after another.
double reads_in_turn(const DeviceCall& call) {
  constexpr double kAtOnce = cuda::kLLPushAtOnce;
  if (call.ranks <= kAtOnce) return 0;
  return reduces(call.collective) ? std::ceil(call.ranks / kAtOnce) - 1 : call.ranks - kAtOnce;
}
constexpr double kOwnReadNs = 200;  // of the L2 cache, with its wait loop; unmeasured

}  // namespace

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
                     push_hop_ns(call.links.near_all, call.costs);
  return rounds * (std::max(half, way) + half + reads_in_turn(call) * kOwnReadNs);
}

namespace {

// What the busiest rank of a shared direct kernel does, in blocks of the call: sums, copies, and
// what passes its link. Shares of a block go once to the ranks that work on them and once to those
// that want the result.
struct DirectShare {
  double summed, copied, moved;
};
DirectShare share_of(const DeviceCall& call) {
  const double others = call.ranks - 1, shares = others / call.ranks;
  switch (call.collective) {
    case Collective::kAllReduce:
      return {shares, shares, 2 * shares};
    case Collective::kReduce:
      return {shares, 0, 2 * shares};
    case Collective::kBroadcast:
      return {0, shares, 2 * shares};
    case Collective::kReduceScatter:
      return {others, 0, others};
    case Collective::kScatter:
      return {0, 1, others};
    default:
      return {0, call.ranks, others};
  }
}

// Reads of peers' memory that follow each other in a thread: of each group of 8 inputs, or of each
// block of a warp. Counted only where kernels find their peers in a table: with fewer, rates
// suffice.
double reads_of_peers_ns(const DeviceCall& call, const DirectShare& share) {
  constexpr double kPeerReadNs = 1000;  // over NVLink and a switch; unmeasured
  constexpr double kGroup = 8, kWord = 8;
  if (call.ranks <= cuda::kArgumentDevices || call.collective == Collective::kBroadcast ||
      call.collective == Collective::kScatter)
    return 0;
  const double words = share.summed * call.bytes / call.ranks / kWord;
  const double turns =
      at_least_one_round(words / (call.facts.direct_ctas * double{cuda::kDirectThreads}));
  return std::ceil(call.ranks / kGroup) * turns * kPeerReadNs;
}

// Two barriers around each device's work on the others' data; its link is used meanwhile. Staged:
// data that a rank sends is copied in before, and results not written directly to its buffer are
// copied out after; all of it piece by piece.
double synchronised_ns(const DeviceCall& call, bool staged) {
  const double ctas = call.facts.direct_ctas;
  const sim::VerbCost cta = direct_cost(call.costs);
  const DirectShare share = share_of(call);
  const double work = (share.summed / cta.sum_gbs + share.copied / cta.copy_gbs) / ctas;
  const double wire = share.moved * cta.wire_bytes / call.links.direct_gbs;
  const double meets = 2 * barrier_ns(call.links.near_all, call.costs);
  const double shared = std::max(call.bytes * std::max(work, wire), reads_of_peers_ns(call, share));
  if (!staged) return meets + shared;
  const std::uint64_t piece =
      staged_elements(call.facts.shared_bytes, call.record, call.facts.ranks);
  const double pieces =
      std::ceil(static_cast<double>(call.record.count) / static_cast<double>(piece));
  const double ns = std::max(pieces, 1.0) * meets + shared;
  const double in = call.collective == Collective::kReduceScatter ? call.ranks : 1;
  const double out = reduces(call.collective) || call.collective == Collective::kBroadcast ? 1 : 0;
  return ns + (in + out) * call.bytes / (ctas * cta.copy_gbs);
}

}  // namespace

std::uint64_t staged_elements(std::uint64_t staging, const CallRecord& record, int ranks) {
  assert(staging > 0 && ranks > 0);
  constexpr std::uint64_t kLine = 128;
  const bool one_block = record.collective == Collective::kAllReduce ||
                         record.collective == Collective::kReduce ||
                         record.collective == Collective::kBroadcast;
  const std::uint64_t width = size_of(record.type), line = kLine / width;
  const std::uint64_t fit = staging / width / static_cast<std::uint64_t>(one_block ? 1 : ranks);
  return fit < line ? std::max<std::uint64_t>(fit, 1) : fit / line * line;
}

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
  return 2 * barrier_ns(call.links.near_all, call.costs) + kMulticastFirstNs +
         blocks * call.bytes / gbs;
}

// One kernel reads the data and writes the results of all ranks; with several devices, over a link.
double direct_ns(const DeviceCall& call, const DevicePlan&) {
  const double moved = call.bytes * call.ranks * 2;
  return call.facts.devices == 1 ? moved * call.costs.of(DeviceRate::kMemory)
                                 : moved / call.links.direct_gbs;
}

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan,
                 NsAfterLaunch work) {
  assert(work != nullptr && plan.channels > 0 && facts.ranks > 0);
  return facts.costs.of(DeviceRate::kLaunch) + plan.channels * facts.costs.of(DeviceRate::kCta) +
         work(DeviceCall(facts, record), plan);
}

}  // namespace rondo::gpu
