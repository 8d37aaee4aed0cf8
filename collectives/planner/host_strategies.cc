#include "collectives/planner/host_strategies.h"

#include <algorithm>
#include <array>

#include "collectives/planner/tuning.h"
#include "kernels/algorithms/hierarchical.h"
#include "transport/connection.h"

namespace rondo {
namespace {

bool allowed(const PlanFacts& facts, const CallRecord& record, Algorithm algorithm) {
  return facts.algorithms.allows(record.collective, algorithm) &&
         !((record.flags >> static_cast<int>(algorithm)) & 1);
}

// Elements per cache line: parts of a round begin on lines.
std::uint64_t grain_of(DataType type) { return kLineBytes / size_of(type); }

std::uint64_t exchanged_whole(DataType type) { return tuning::kExchangedWhole / size_of(type); }

Rounds rounds_of(const CallRecord& record, std::uint64_t blocks, std::uint64_t window_bytes) {
  const std::uint64_t grain = grain_of(record.type);
  std::uint64_t per_round = window_bytes / (blocks * size_of(record.type));
  if (per_round > grain) per_round = per_round / grain * grain;
  per_round = std::clamp<std::uint64_t>(per_round, 1, std::max<std::uint64_t>(record.count, 1));
  return {record.count, per_round, grain};
}

// Narrow floats are rounded at every hop along connections, so their bits depend on the algorithm.
bool is_reproducible(const PlanFacts& facts, Order order, DataType type) {
  const bool narrow = is_float(type) && size_of(type) < 4;
  const bool tree = order == Order::kTree || (order == Order::kHostTree && facts.aligned_hosts);
  return order == Order::kNone || (tree && !narrow);
}

// Whether the table has this algorithm for the call, and it may run it.
bool may_run(const PlanFacts& facts, const CallRecord& record, Algorithm algorithm, Verbs verbs) {
  const AlgorithmRow* const row = find_row(algorithm, record.collective);
  return allowed(facts, record, algorithm) && row != nullptr && row->verbs == verbs &&
         (!facts.reproducible || is_reproducible(facts, row->order, record.type));
}

// ---- one rank; parts; messages ----

bool is_alone(const PlanFacts& facts, const CallRecord&) { return facts.ranks == 1; }
bool has_parts(const PlanFacts&, const CallRecord& record) {
  return record.collective == Collective::kReduceScatterV;
}
// Those with a count for every rank everywhere, those with a block for every pair between hosts.
bool may_be_messages(const PlanFacts& facts, const CallRecord& record) {
  if (is_vector(record.collective)) return !has_parts(facts, record);
  return facts.hosts > 1 &&
         (record.collective == Collective::kAllToAll || record.collective == Collective::kGather ||
          record.collective == Collective::kScatter);
}
Plan plain_plan(const PlanFacts&, const CallRecord&) { return {}; }

// ---- direct ----

// Whether the data of a call travel with its announcement, and where they lie: kStaged if not.
Protocol with_announcement(const PlanFacts& facts, const CallRecord& record,
                           const AlgorithmRow& row, std::uint64_t blocks) {
  if (!row.fits_lines || record.count > kBesideBytes || facts.ranks > tuning::kLineRanks ||
      !facts.protocols.allows_lines(record.collective))
    return Protocol::kStaged;
  const std::uint64_t bytes = record.count * blocks * size_of(record.type);
  if (bytes <= kPayloadBytes) return Protocol::kLine;
  return bytes <= kBesideBytes ? Protocol::kLines : Protocol::kStaged;
}

// The first choice by size.
Algorithm choose(const PlanFacts& facts, const CallRecord& record, std::uint64_t bytes) {
  const bool one_shot = bytes <= one_shot_limit(record.collective, facts.ranks);
  switch (record.collective) {
    case Collective::kAllReduce:
      return one_shot ? Algorithm::kOneShot : Algorithm::kTwoShot;
    case Collective::kReduce:
      return one_shot ? Algorithm::kOneShot : Algorithm::kDirect;
    default:
      return Algorithm::kDirect;
  }
}

bool may_go_direct(const PlanFacts& facts, const CallRecord& record) {
  const auto may_run = [&](const AlgorithmRow& row) {
    return row.collective == record.collective && row.verbs == Verbs::kPeerMemory &&
           allowed(facts, record, row.algorithm);
  };
  return facts.hosts == 1 && std::any_of(std::begin(kAlgorithms), std::end(kAlgorithms), may_run);
}

// The choice by size, or the other one where NCCL_ALGO or the call leaves out the first. One of
// them is allowed (may_go_direct).
Algorithm choose_allowed(const PlanFacts& facts, const CallRecord& record, std::uint64_t bytes) {
  const Algorithm first = choose(facts, record, bytes);
  if (allowed(facts, record, first)) return first;
  if (first != Algorithm::kOneShot) return Algorithm::kOneShot;
  return record.collective == Collective::kAllReduce ? Algorithm::kTwoShot : Algorithm::kDirect;
}

Plan direct_plan(const PlanFacts& facts, const CallRecord& record) {
  Plan plan;
  const std::uint64_t bytes = record.count * size_of(record.type);
  plan.algorithm = choose_allowed(facts, record, bytes);
  plan.row = find_row(plan.algorithm, record.collective);
  const auto blocks = static_cast<std::uint64_t>(blocks_of(plan.row->fill, facts.ranks));
  if (!facts.fused) plan.protocol = with_announcement(facts, record, *plan.row, blocks);
  if (plan.protocol != Protocol::kStaged) {
    plan.rounds = {record.count, std::max<std::uint64_t>(record.count, 1), 1};
    return plan;
  }
  plan.expose = bytes >= tuning::kExposeFrom && record.op != RedOp::kPreMulSum && !facts.fused;
  // Ranks of one process always reach each other's buffers: then no window limits a round.
  const bool always_exposed = facts.one_process && plan.expose && plan.row->in_place_safe;
  const std::uint64_t window =
      always_exposed ? ~std::uint64_t{0} >> 8
                     : std::min(facts.slot_bytes, tuning::round_bytes(facts.core_cache_bytes));
  plan.rounds = rounds_of(record, blocks, window);
  plan.stream_stores = bytes >= tuning::stream_stores_from(facts.shared_cache_bytes, facts.ranks);
  return plan;
}

// ---- connected ----

// Algorithms over connections, best first: few steps for small calls, few bytes for large ones.
std::array<Algorithm, 3> primitives_choices(const PlanFacts& facts, const CallRecord& record) {
  const std::uint64_t bytes = record.count * size_of(record.type);
  if (facts.reproducible || bytes <= tuning::kTreeUpTo)
    return {Algorithm::kRecursive, Algorithm::kTree, Algorithm::kRing};
  return {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursive};
}

// A barrier over hosts: everybody's token is in everybody's sum, whatever NCCL_ALGO says of sums.
struct Question {
  PlanFacts facts;
  CallRecord record;
};
Question as_sum(const PlanFacts& facts) {
  Question sum{facts, {1, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1}};
  sum.facts.algorithms = {};
  sum.facts.reproducible = false;
  return sum;
}
bool is_wide_barrier(const PlanFacts& facts, const CallRecord& record) {
  return facts.hosts > 1 && record.collective == Collective::kBarrier;
}

// The best that may run; null where none may.
const AlgorithmRow* connected_row(const PlanFacts& facts, const CallRecord& record) {
  for (Algorithm algorithm : primitives_choices(facts, record))
    if (may_run(facts, record, algorithm, Verbs::kPrimitives))
      return find_row(algorithm, record.collective);
  return nullptr;
}

bool may_connect(const PlanFacts& facts, const CallRecord& record) {
  return is_wide_barrier(facts, record) || connected_row(facts, record) != nullptr;
}

Plan connected_plan(const PlanFacts& facts, const CallRecord& record) {
  if (is_wide_barrier(facts, record)) {
    const Question sum = as_sum(facts);
    return connected_plan(sum.facts, sum.record);
  }
  Plan plan;
  plan.protocol = Protocol::kSimple;
  plan.row = connected_row(facts, record);
  plan.algorithm = plan.row->algorithm;
  const std::uint64_t grain = grain_of(record.type);
  const std::uint64_t slot = facts.connection_slot_bytes / size_of(record.type) / grain * grain;
  // A round of the ring is a slot for every rank, one of the trees a slot for each of the two.
  const auto slots = static_cast<std::uint64_t>(slots_of(plan.row->fill, facts.ranks));
  plan.rounds = {record.count, slot * slots, grain, exchanged_whole(record.type)};
  return plan;
}

// ---- hierarchical ----

bool may_be_hierarchical(const PlanFacts& facts, const CallRecord& record) {
  return facts.hosts > 1 && may_run(facts, record, Algorithm::kHierarchical, Verbs::kViews);
}

// Large calls, unless hosts have one rank each; others only where nothing else may run them.
int hierarchical_score(const PlanFacts& facts, const CallRecord& record) {
  const bool blocks = record.collective == Collective::kAllGather ||
                      record.collective == Collective::kReduceScatter;
  const std::uint64_t larger_side =
      (blocks ? facts.ranks : 1) * record.count * size_of(record.type);
  const bool large = larger_side >= tuning::hierarchical_from(record.collective);
  return large && facts.ranks > facts.hosts ? 70 : 10;
}

Plan hierarchical_plan(const PlanFacts& facts, const CallRecord& record) {
  Plan plan;
  plan.algorithm = Algorithm::kHierarchical;
  plan.row = find_row(plan.algorithm, record.collective);
  plan.protocol = Protocol::kMixed;
  plan.expose =
      record.count * size_of(record.type) >= tuning::kExposeFrom && record.op != RedOp::kPreMulSum;
  const std::uint64_t grain = grain_of(record.type);
  std::uint64_t per_round = facts.slot_bytes / size_of(record.type);
  per_round /= static_cast<std::uint64_t>(blocks_of(plan.row->fill, facts.ranks));
  if (plan.row->fill == Fill::kOtherHosts)
    per_round /= hierarchical_all_gather_slot(facts.hosts, facts.rails, facts.largest_host, 1);
  if (per_round > grain) per_round = per_round / grain * grain;
  plan.rounds = {record.count, std::max<std::uint64_t>(per_round, 1), grain,
                 exchanged_whole(record.type)};
  return plan;
}

constexpr HostStrategyRow kStrategies[] = {
    {Strategy::kAlone, is_alone, always<110>, plain_plan, "none", host_reasons::alone, nullptr},
    {Strategy::kParts, has_parts, always<100>, plain_plan, "reduces", host_reasons::parts, nullptr},
    {Strategy::kMessages, may_be_messages, always<90>, plain_plan, "messages",
     host_reasons::messages, nullptr},
    {Strategy::kHierarchical, may_be_hierarchical, hierarchical_score, hierarchical_plan, nullptr,
     host_reasons::hierarchical, host_reasons::details},
    {Strategy::kDirect, may_go_direct, always<60>, direct_plan, nullptr, host_reasons::direct,
     host_reasons::details},
    {Strategy::kConnected, may_connect, always<50>, connected_plan, nullptr,
     host_reasons::connected, host_reasons::details},
};

}  // namespace

std::span<const HostStrategyRow> host_strategies() { return kStrategies; }

std::uint64_t one_shot_limit(Collective collective, int ranks) {
  const auto up_to = [&](const auto& rows) {
    for (const auto& row : rows)
      if (ranks <= row.ranks) return row.one_shot_up_to;
    return std::uint64_t{0};
  };
  if (collective == Collective::kAllReduce) return up_to(tuning::kAllReduce);
  return collective == Collective::kReduce ? up_to(tuning::kReduce) : 0;
}

}  // namespace rondo
