// SPDX-License-Identifier: Apache-2.0
// The work of algorithms over connections: rings, trees, recursive halving, hierarchies of hosts.
#include <algorithm>

#include "collectives/planner/host_work.h"

namespace rondo {
namespace {

// Steps that `chunks` pipelined chunks take over `hops` hops. Ranks with a core each work on
// several chunks at a time; ranks that share a core take turns.
double steps_of(const WorkEstimate& e, double hops, double chunks) {
  return e.share > 1 ? hops * chunks : hops + chunks - 1;
}

// A ring (ring.h). A rank receives each part before it sends it on, so only the first chunk of a
// round overlaps. A partial sum is written to a slot of the next rank, which costs as much as a
// copy.
void ring_work(WorkEstimate& e, Collective collective) {
  const double n = e.ranks, crossing = e.crossing_of_ring();
  switch (collective) {
    case Collective::kAllReduce: {
      const double part = e.bytes / n;
      e.hand_on(e.rounds * 2 * (n - 1), crossing);
      e.copy(part * (3 * n - 2));
      e.sum(part * (n - 1));
      return e.leave(2 * part * (n - 1));
    }
    case Collective::kAllGather:
      e.hand_on(e.rounds * (n - 1), crossing);
      e.copy(e.bytes * (2 * n - 1));
      return e.leave(e.bytes * (n - 1));
    case Collective::kReduceScatter:
      e.hand_on(e.rounds * (n - 1), crossing);
      e.copy(e.bytes * n);
      e.sum(e.bytes * (n - 1));
      return e.leave(e.bytes * (n - 1));
    case Collective::kReduce:  // a chain: rounds are pipelined
      e.hand_on(steps_of(e, n - 1, e.rounds), crossing);
      e.sum(e.bytes + (e.share > 1 ? 0 : (n - 2) * e.chunk));
      e.copy(e.bytes);
      return e.leave(e.bytes);
    default:
      e.hand_on(steps_of(e, n - 1, e.rounds), crossing);
      e.copy(2 * e.bytes + (e.share > 1 ? 0 : 2 * (n - 2) * e.chunk));
      return e.leave(e.bytes);
  }
}

// Two trees, each with half of the bytes; data that fits in a line uses one tree. Ranks are ordered
// host by host in the trees, so a hop crosses hosts if its distance is at least the number of ranks
// of a host.
void tree_work(WorkEstimate& e, Collective collective) {
  const double depth = log2_of(e.ranks);
  const double crossing = e.hosts > 1 ? log2_of(e.hosts) / depth : 0;
  const double ways = collective == Collective::kAllReduce ? 2 : 1;
  const double trees = e.bytes <= static_cast<double>(kLineBytes) ? 1 : 2;
  e.hand_on(steps_of(e, ways * depth, trees * e.rounds), crossing);
  e.leave(ways * e.bytes);
  // While the first chunk passes down, further hops do the same work.
  const double filling = e.share > 1 ? 0 : (depth - 1) * e.chunk;
  if (collective != Collective::kBroadcast) e.sum(e.bytes + filling);
  if (collective != Collective::kBroadcast) e.copy(e.bytes / 2);
  if (collective != Collective::kReduce) e.copy(2 * e.bytes + 1.5 * filling);
}

// Blocks of binary digits exchange data on the way there and back (recursive.h).
double handovers(int ranks) {
  double blocks = 0;
  for (auto left = static_cast<unsigned>(ranks); left != 0; left &= left - 1) blocks += 1;
  return 2 * (blocks - 1);
}

// For `partners` ranks. crossing: share of their steps that cross hosts.
void recursive_work(WorkEstimate& e, int partners, double bytes, double slot, double crossing,
                    double crossing_bytes) {
  const double n = partners, log = log2_of(n), more = handovers(partners);
  const auto whole = static_cast<double>(tuning::kExchangedWhole);
  if (bytes <= whole) {
    e.hand_on(log + more, crossing);
    e.copy(bytes * (log + more));
    e.sum(bytes * (log + more));
    return e.leave(bytes * std::max(log * crossing, more) * crossing_bytes);
  }
  const double moved = bytes * (n - 1) / n;
  e.hand_on(std::max(2 * log, 2 * moved / slot) + more, crossing);
  e.copy(bytes + 3 * moved + more * bytes);
  e.sum(moved);
  e.leave((2 * moved + more * bytes) * crossing_bytes);
}

}  // namespace

void add_connected_work(WorkEstimate& e, Collective collective) {
  const bool barrier = collective == Collective::kBarrier;  // runs as a sum of tokens
  switch (e.plan.algorithm) {
    case Algorithm::kRing:
      return ring_work(e, barrier ? Collective::kAllReduce : collective);
    case Algorithm::kTree:
      return tree_work(e, barrier ? Collective::kAllReduce : collective);
    case Algorithm::kRecursive: {
      const double log = std::max(log2_of(e.ranks), 1.0);
      const double crossing = e.hosts > 1 ? log2_of(e.hosts) / log : 0;
      const auto slot = static_cast<double>(e.facts.connection_slot_bytes);
      return recursive_work(e, e.facts.ranks, e.bytes, std::max(slot, 1.0), crossing, 1);
    }
    case Algorithm::kOneShot:
    case Algorithm::kTwoShot:
    case Algorithm::kDirect:
    case Algorithm::kHierarchical:
    case Algorithm::kNvls:
      break;
  }
  e.never();
}

void add_hierarchical_work(WorkEstimate& e, Collective collective) {
  const double m = e.local, h = e.hosts, others = (m - 1) / m;
  const double slot = std::max(static_cast<double>(e.facts.link_slot_bytes), 1.0);
  const double slots = std::max(e.chunk / e.rails / slot, 1.0);  // per rail and round
  // All ranks of a host meet before and after data crosses hosts; in rooted collectives only once.
  const bool rooted = is_rooted(collective);
  e.meet(rooted ? e.rounds : 2 * e.rounds);
  if (!rooted) e.work[HostRate::kRelay] += e.share;
  switch (collective) {
    case Collective::kAllReduce: {
      e.copy(e.bytes * (2 * others + 1 / m));
      e.sum(e.bytes * others);
      // Each rail exchanges its part of a round.
      const double part = e.chunk / e.rails, hops = 2 * log2_of(h) + handovers(e.facts.hosts);
      const bool whole = part <= static_cast<double>(tuning::kExchangedWhole);
      e.hand_on(e.rounds * (whole ? hops / 2 : hops + slots - 1), 1);
      const double moved = e.bytes / e.rails * (h - 1) / h;
      e.copy(3 * moved);
      e.sum(moved);
      return e.leave(2 * moved * e.rails);
    }
    case Collective::kAllGather: {
      const double far = (e.ranks - m) * e.bytes;
      e.copy((m + 1) * e.bytes + far / e.rails * 2 + far);
      e.hand_on(e.rounds * (h - 1) * (m / e.rails) * slots, 1);
      return e.leave(far);
    }
    case Collective::kReduceScatter: {
      const double far = (e.ranks - m) * e.bytes;
      e.copy((e.ranks - 1) * e.bytes + e.bytes);
      e.sum((m - 1) * (e.bytes + far / m) + far / e.rails);
      e.hand_on(e.rounds * (h - 1) * (m / e.rails) * slots, 1);
      return e.leave(far);
    }
    case Collective::kReduce:
      e.copy(e.bytes + e.bytes);
      e.sum(e.bytes * others + e.bytes / e.rails);
      e.hand_on(e.rounds * slots + h - 2, 1);
      return e.leave(e.bytes);
    default:
      e.copy(e.bytes + 2 * e.bytes / e.rails);
      e.hand_on(e.rounds * slots + h - 2, 1);
      return e.leave(e.bytes);
  }
}

}  // namespace rondo
