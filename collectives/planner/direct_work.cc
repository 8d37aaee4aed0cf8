// SPDX-License-Identifier: Apache-2.0
// The work of algorithms over peers' memory: one function for each direct algorithm in
// kernels/algorithms.
#include <algorithm>

#include "collectives/planner/host_work.h"
#include "transport/connection.h"

namespace rondo {
namespace {

constexpr double kLinesAhead = kAnnounceDepth;

bool in_lines(const WorkEstimate& e) {
  return e.plan.protocol == Protocol::kLine || e.plan.protocol == Protocol::kLines;
}

// Data in lines: no staging, no second meeting. `sums`: of all ranks' data.
bool add_lines(WorkEstimate& e, double blocks, bool sums) {
  if (!in_lines(e)) return false;
  e.meet(1);
  if (sums) {
    e.sum((e.ranks - 1) * e.bytes);
  } else {
    e.copy(blocks * e.bytes);
  }
  return true;
}

// One wait per round for all, and one more if buffers are in place: until their readers have
// finished.
void meet_rounds(WorkEstimate& e, double more) { e.meet(e.rounds + more + (e.exposed ? 1 : 0)); }

void one_shot_all_reduce_work(WorkEstimate& e) {
  if (add_lines(e, 1, true)) return;
  meet_rounds(e, 0);
  if (!e.exposed) e.copy(e.bytes);
  e.sum((e.ranks - 1) * e.bytes);
}

void two_shot_all_reduce_work(WorkEstimate& e) {
  meet_rounds(e, 1);
  const double others = e.bytes * (e.ranks - 1) / e.ranks;
  e.copy(e.exposed ? others : 2 * others + e.bytes / e.ranks);
  e.sum(others);
}

// Waits of a root and of the ranks ahead of it; with buffers in place all ranks wait together.
void follow_rounds(WorkEstimate& e, double peers) {
  if (e.exposed) return meet_rounds(e, 0);
  e.follow(peers, e.rounds, in_lines(e) ? kLinesAhead : kStagingSlots * e.plan.slot_parts);
}

void one_shot_reduce_work(WorkEstimate& e) {
  follow_rounds(e, e.ranks - 1);
  if (!e.exposed && e.share > 1) e.copy_of_one(0, (e.ranks - 1) * e.bytes);
  e.sum_of_one((e.ranks - 1) * e.bytes, (e.ranks - 1) * e.bytes);
}

void direct_reduce_work(WorkEstimate& e) {
  meet_rounds(e, 1);
  const double others = e.bytes * (e.ranks - 1) / e.ranks;
  if (!e.exposed) e.copy(others);
  e.copy_of_one(others, e.exposed ? others : 2 * others);
  e.sum(others);
}

// The root runs ahead of its readers: it fills a slot while they copy another. Ranks that read the
// same pages at the same time slow each other down.
void broadcast_work(WorkEstimate& e) {
  constexpr double kMoreOfReader = 0.25;  // of its time, for each other reader; measured with two
  follow_rounds(e, 1);
  if (e.reads) {
    const double readers = std::min(e.ranks - 1, e.ranks / e.share);
    const double each = e.bytes * (1 + kMoreOfReader * (readers - 1));
    return e.read_of_one(e.rounds, each, (e.ranks - 1) * each);
  }
  e.copy_of_one(e.bytes, e.ranks * e.bytes);
}

// A block of each peer, and a copy of the own one.
void read_blocks(WorkEstimate& e) {
  e.read((e.ranks - 1) * e.rounds, (e.ranks - 1) * e.bytes);
  e.copy(e.bytes);
}

void all_gather_work(WorkEstimate& e) {
  if (add_lines(e, e.ranks, false)) return;
  meet_rounds(e, 0);
  if (e.reads) return read_blocks(e);
  e.copy((e.ranks + (e.exposed ? 0 : 1)) * e.bytes);
}

void reduce_scatter_work(WorkEstimate& e) {
  if (add_lines(e, e.ranks, true)) return;
  meet_rounds(e, 0);
  if (!e.exposed) e.copy((e.ranks - 1) * e.bytes);
  e.sum((e.ranks - 1) * e.bytes);
}

void all_to_all_work(WorkEstimate& e) {
  if (add_lines(e, 2 * e.ranks, false)) return;
  meet_rounds(e, 0);
  if (e.reads) return read_blocks(e);
  e.copy((2 * e.ranks - 1) * e.bytes);
}

void gather_work(WorkEstimate& e, bool gathers) {
  follow_rounds(e, gathers ? e.ranks - 1 : 1);
  if (e.reads) {
    const double all = (e.ranks - 1) * e.bytes;
    e.copy_of_one(e.bytes, e.bytes);
    return e.read_of_one(e.rounds * (gathers ? e.ranks - 1 : 1), gathers ? all : e.bytes, all);
  }
  e.copy_of_one(e.ranks * e.bytes, 2 * e.ranks * e.bytes);
}

void barrier_work(WorkEstimate& e) { e.meet(1); }

}  // namespace

void add_direct_work(WorkEstimate& e, Collective collective) {
  const Algorithm algorithm = e.plan.algorithm;
  const bool one_shot = algorithm == Algorithm::kOneShot;
  if (!one_shot && algorithm != (collective == Collective::kAllReduce ? Algorithm::kTwoShot
                                                                      : Algorithm::kDirect))
    return e.never();
  switch (collective) {
    case Collective::kAllReduce:
      return one_shot ? one_shot_all_reduce_work(e) : two_shot_all_reduce_work(e);
    case Collective::kReduce:
      return one_shot ? one_shot_reduce_work(e) : direct_reduce_work(e);
    case Collective::kBroadcast:
      return broadcast_work(e);
    case Collective::kAllGather:
      return all_gather_work(e);
    case Collective::kReduceScatter:
      return reduce_scatter_work(e);
    case Collective::kAllToAll:
      return all_to_all_work(e);
    case Collective::kGather:
    case Collective::kScatter:
      return gather_work(e, collective == Collective::kGather);
    default:
      return barrier_work(e);
  }
}

}  // namespace rondo
