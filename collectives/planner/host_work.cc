// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/host_work.h"

#include <algorithm>
#include <cassert>

namespace rondo {
namespace {

double at_least_one(std::uint64_t number) {
  return static_cast<double>(std::max<std::uint64_t>(number, 1));
}

// Blocks of the call's count in both buffers of a rank, on average.
double blocks_of_rank(Collective collective, double ranks) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kGather:
    case Collective::kScatter:
      return 2;
    case Collective::kAllToAll:
      return 2 * ranks;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return ranks + 1;
    default:
      return 1;
  }
}

}  // namespace

WorkEstimate::WorkEstimate(const PlanFacts& with, const CallRecord& call, const Plan& made)
    : facts(with),
      plan(made),
      ranks(with.ranks),
      hosts(with.hosts),
      local(with.largest_host > 1 ? with.largest_host
            : with.hosts == 1     ? with.ranks
                                  : 1),
      rails(with.rails),
      share(with.core_share),
      rounds(made.rounds.per_round > 0 ? at_least_one(made.rounds.size()) : 1),
      bytes(static_cast<double>(call.count * size_of(call.type))),
      chunk(bytes / rounds),
      reads(made.protocol == Protocol::kRead),
      exposed(reads || (made.expose && with.one_process)) {}

void WorkEstimate::copy_of_one(double one, double all) {
  const double on_cores = all * share / ranks;
  work[HostRate::kCopy] += std::max(one, on_cores);
}

void WorkEstimate::sum_of_one(double one, double all) {
  const double on_cores = all * share / ranks;
  work[HostRate::kSum] += std::max(one, on_cores);
}

void WorkEstimate::read_of_one(double pieces, double one, double all) {
  assert(one > 0 && all >= 0);
  const double on_cores = std::max(one, all * share / ranks);
  work[HostRate::kRead] += pieces * on_cores / one;
  work[HostRate::kReadByte] += on_cores;
}

void WorkEstimate::hand_on(double steps, double crossing) {
  assert(steps >= 0 && crossing >= 0 && crossing <= 1);
  work[HostRate::kLink] += steps * crossing;
  work[HostRate::kSlot] += steps * (1 - crossing);
  wait(steps);
}

void WorkEstimate::add_memory(double each) {
  const auto cache = static_cast<double>(tuning::shared_cache(facts.shared_cache_bytes));
  const double beyond = each * local - cache / 2;
  if (beyond > 0) work[HostRate::kMemory] += beyond / local * share;
}

double log2_of(double ranks) {
  assert(ranks >= 1);
  double steps = 0;
  for (double reached = 1; reached < ranks; reached *= 2) steps += 1;
  return steps;
}

void add_copy_work(WorkEstimate& e, Collective) { e.copy(e.bytes); }

// Messages of a rank: one to each of the others, or a single one.
void add_message_work(WorkEstimate& e, Collective collective) {
  const bool one = is_rooted(collective) || collective >= Collective::kSend;
  const double peers = one ? 1 : e.ranks - 1;
  e.hand_on(peers, e.hosts > 1 ? 1 - (e.local - 1) / std::max(e.ranks - 1, 1.0) : 0);
  e.copy(2 * peers * e.bytes);
  e.leave((e.ranks - e.local) * e.bytes * (one ? 1 : e.local));
}

HostWork host_work(const PlanFacts& facts, const CallRecord& record, const Plan& plan,
                   AddWork add) {
  assert(add != nullptr && facts.ranks > 0 && facts.core_share >= 1);
  WorkEstimate e(facts, record, plan);
  e.work[HostRate::kCall] += e.share;
  add(e, record.collective);
  e.add_memory(e.bytes * blocks_of_rank(record.collective, e.ranks));
  return e.work;
}

}  // namespace rondo
