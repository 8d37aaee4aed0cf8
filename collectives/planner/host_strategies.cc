// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/host_strategies.h"

#include <algorithm>
#include <cassert>

#include "collectives/planner/tuning.h"
#include "kernels/algorithms/hierarchical.h"
#include "transport/connection.h"

namespace rondo {
namespace {

bool allowed(const PlanFacts& facts, const CallRecord& record, Algorithm algorithm) {
  return facts.algorithms.allows(record.collective, algorithm) &&
         !((record.excluded >> static_cast<int>(algorithm)) & 1);
}

// Elements per cache line: parts of a round begin on lines.
std::uint64_t grain_of(DataType type) { return kLineBytes / size_of(type); }

std::uint64_t exchanged_whole(DataType type) { return tuning::kExchangedWhole / size_of(type); }

Rounds rounds_of(const CallRecord& record, std::uint64_t blocks, std::uint64_t window_bytes) {
  assert(window_bytes > 0);
  const std::uint64_t grain = grain_of(record.type);
  assert(blocks > 0);
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

// True if the table has this algorithm for the call and it may run.
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
// Calls with a count per rank, always; calls with a block per pair, between hosts.
bool may_be_messages(const PlanFacts& facts, const CallRecord& record) {
  if (is_vector(record.collective)) return !has_parts(facts, record);
  return facts.hosts > 1 &&
         (record.collective == Collective::kAllToAll || record.collective == Collective::kGather ||
          record.collective == Collective::kScatter);
}
Plan plain_plan(const PlanFacts&, const CallRecord&) { return {}; }

// ---- direct ----

// Whether the call's data travels with its announcement, and where; kStaged if not.
Protocol with_announcement(const PlanFacts& facts, const CallRecord& record,
                           const AlgorithmRow& row, std::uint64_t blocks) {
  if (!row.fits_lines || record.count > kBesideBytes || facts.ranks > tuning::kLineRanks ||
      !facts.protocols.allows_lines(record.collective))
    return Protocol::kStaged;
  const std::uint64_t bytes = record.count * blocks * size_of(record.type);
  if (bytes <= kPayloadBytes) return Protocol::kLine;
  return bytes <= kBesideBytes ? Protocol::kLines : Protocol::kStaged;
}

// Between processes, for data that is not reduced and not in the announcement.
bool may_read(const PlanFacts& facts, const CallRecord& record) {
  const AlgorithmRow* const row = find_row(Algorithm::kDirect, record.collective);
  if (facts.reads == MemoryReads::kNever || facts.hosts > 1 || facts.one_process || facts.fused ||
      row == nullptr || row->inputs == Who::kNobody || row->order != Order::kNone ||
      !allowed(facts, record, Algorithm::kDirect))
    return false;
  const auto blocks = static_cast<std::uint64_t>(blocks_of(row->fill, facts.ranks));
  return with_announcement(facts, record, *row, blocks) == Protocol::kStaged;
}

// All direct algorithms reduce in the tree's order and round once.
template <Algorithm algorithm>
bool may_go_direct(const PlanFacts& facts, const CallRecord& record) {
  const AlgorithmRow* const row = find_row(algorithm, record.collective);
  return facts.hosts == 1 && row != nullptr && row->verbs == Verbs::kPeerMemory &&
         allowed(facts, record, algorithm) &&
         !(facts.reads == MemoryReads::kAlways && may_read(facts, record));
}

// Where ranks share cores, a rank that needs no data of others runs ahead through parts of slots,
// if the call's data fits there: few switches serve many calls. With a core for each rank, four
// slots that stay in the first-level cache are faster.
int slot_parts_of(const PlanFacts& facts, const CallRecord& record, const Plan& plan,
                  std::uint64_t slot_data) {
  if (!facts.crowded() || facts.fused || !is_rooted(record.collective) || plan.expose ||
      plan.rounds.size() > 1)
    return 1;
  int parts = kSlotParts;
  while (parts > 1 && slot_data > kPartedBytes / static_cast<std::uint64_t>(parts)) parts /= 2;
  return parts;
}

constexpr std::uint64_t kNoWindow = ~std::uint64_t{0} >> 8;

template <Algorithm algorithm>
Plan direct_plan(const PlanFacts& facts, const CallRecord& record) {
  Plan plan;
  const std::uint64_t bytes = record.count * size_of(record.type);
  plan.algorithm = algorithm;
  plan.row = find_row(plan.algorithm, record.collective);
  assert(plan.row != nullptr && facts.slot_bytes > 0 && "the row supports the call");
  const auto blocks = static_cast<std::uint64_t>(blocks_of(plan.row->fill, facts.ranks));
  if (!facts.fused) plan.protocol = with_announcement(facts, record, *plan.row, blocks);
  if (plan.protocol != Protocol::kStaged) {
    plan.rounds = {record.count, std::max<std::uint64_t>(record.count, 1), 1};
    return plan;
  }
  plan.expose = bytes >= tuning::kExposeFrom && record.op != RedOp::kPreMulSum && !facts.fused;
  // Ranks of one process always reach each other's buffers: then no window limits a round.
  const bool always_exposed = facts.one_process && plan.expose && plan.row->in_place_safe;
  std::uint64_t window = std::min(facts.slot_bytes, tuning::round_bytes(facts.core_cache_bytes));
  if (record.collective == Collective::kBroadcast && !facts.crowded())
    window = std::min(window, tuning::kBroadcastRound);
  if (always_exposed) window = kNoWindow;
  plan.rounds = rounds_of(record, blocks, window);
  plan.slot_parts = slot_parts_of(facts, record, plan, bytes * blocks);
  plan.stream_stores = bytes >= tuning::stream_stores_from(facts.shared_cache_bytes, facts.ranks);
  return plan;
}

// No window limits a round, except where a rank may stage its input because it is in place.
Plan read_plan(const PlanFacts& facts, const CallRecord& record) {
  Plan plan = direct_plan<Algorithm::kDirect>(facts, record);
  plan.protocol = Protocol::kRead;
  plan.expose = true;
  plan.slot_parts = 1;
  const auto blocks = static_cast<std::uint64_t>(blocks_of(plan.row->fill, facts.ranks));
  plan.rounds = rounds_of(record, blocks, plan.row->in_place_safe ? kNoWindow : facts.slot_bytes);
  return plan;
}

// ---- connected ----

// A barrier between hosts is a sum over the tokens of all ranks, regardless of what NCCL_ALGO
// allows for sums.
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

// Fused calls run directly; along connections the calls run one by one.
template <Algorithm algorithm>
bool may_connect(const PlanFacts& facts, const CallRecord& record) {
  if (is_wide_barrier(facts, record)) {
    const Question sum = as_sum(facts);
    return may_run(sum.facts, sum.record, algorithm, Verbs::kPrimitives);
  }
  return !facts.fused && may_run(facts, record, algorithm, Verbs::kPrimitives);
}

template <Algorithm algorithm>
Plan connected_plan(const PlanFacts& facts, const CallRecord& record) {
  if (is_wide_barrier(facts, record)) {
    const Question sum = as_sum(facts);
    return connected_plan<algorithm>(sum.facts, sum.record);
  }
  Plan plan;
  plan.protocol = Protocol::kSimple;
  plan.algorithm = algorithm;
  plan.row = find_row(algorithm, record.collective);
  const std::uint64_t grain = grain_of(record.type);
  const std::uint64_t slot = facts.connection_slot_bytes / size_of(record.type) / grain * grain;
  // A round of a ring is one slot per rank; a round of the trees is one slot per tree.
  const auto slots = static_cast<std::uint64_t>(slots_of(plan.row->fill, facts.ranks));
  plan.rounds = {record.count, slot * slots, grain, exchanged_whole(record.type)};
  return plan;
}

// ---- hierarchical ----

bool may_be_hierarchical(const PlanFacts& facts, const CallRecord& record) {
  return facts.hosts > 1 && may_run(facts, record, Algorithm::kHierarchical, Verbs::kViews);
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

// ---- by owners ----

// Sums in tree order between hosts that no algorithm has: of narrow floats, and those that are
// scattered or have a root.
bool may_be_by_owners(const PlanFacts& facts, const CallRecord& record) {
  return facts.reproducible && facts.hosts > 1 && !facts.fused && reduces(record.collective) &&
         allowed(facts, record, Algorithm::kTree) && !may_be_hierarchical(facts, record) &&
         !may_connect<Algorithm::kRecursive>(facts, record) &&
         !may_connect<Algorithm::kTree>(facts, record);
}
double predicted(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  const AddWork add = row_of(host_strategies(), plan.strategy).work;
  return host_work(facts, record, plan, add).ns(facts.costs);
}

// Along connections, or connections and memory. Two cases run only when nothing else applies:
// connections within a host whose cost is assumed, and hierarchies of hosts with one rank, which
// have no memory to share.
double predicted_across(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
  constexpr double kLastResortNs = 1e15;
  bool worth = true;
  if (facts.hosts == 1) {
    worth = facts.costs.measured;
  } else if (plan.algorithm == Algorithm::kHierarchical) {
    worth = facts.ranks > facts.hosts;
  }
  return predicted(facts, record, plan) + (worth ? 0 : kLastResortNs);
}

template <Algorithm algorithm>
constexpr HostStrategyRow direct_row() {
  return {Strategy::kDirect,
          may_go_direct<algorithm>,
          predicted,
          direct_plan<algorithm>,
          nullptr,
          host_reasons::direct,
          host_reasons::details,
          add_direct_work};
}
template <Algorithm algorithm>
constexpr HostStrategyRow connected_row() {
  return {Strategy::kConnected,
          may_connect<algorithm>,
          predicted_across,
          connected_plan<algorithm>,
          nullptr,
          host_reasons::connected,
          host_reasons::details,
          add_connected_work};
}

// Rows without a cost are the only rows for their calls.
constexpr HostStrategyRow kStrategies[] = {
    {Strategy::kAlone, is_alone, nullptr, plain_plan, "none", host_reasons::alone, nullptr,
     add_copy_work},
    {Strategy::kParts, has_parts, nullptr, plain_plan, "reduces", host_reasons::parts, nullptr,
     add_message_work},
    {Strategy::kMessages, may_be_messages, nullptr, plain_plan, "messages", host_reasons::messages,
     nullptr, add_message_work},
    {Strategy::kOwners, may_be_by_owners, nullptr, plain_plan, "owners", host_reasons::owners,
     nullptr, add_message_work},
    direct_row<Algorithm::kOneShot>(),
    direct_row<Algorithm::kTwoShot>(),
    direct_row<Algorithm::kDirect>(),
    {Strategy::kDirect, may_read, predicted, read_plan, nullptr, host_reasons::direct,
     host_reasons::details, add_direct_work},
    connected_row<Algorithm::kRecursive>(),
    connected_row<Algorithm::kTree>(),
    connected_row<Algorithm::kRing>(),
    {Strategy::kHierarchical, may_be_hierarchical, predicted_across, hierarchical_plan, nullptr,
     host_reasons::hierarchical, host_reasons::details, add_hierarchical_work},
};

}  // namespace

std::span<const HostStrategyRow> host_strategies() { return kStrategies; }

bool has_tree_bits(const PlanFacts& facts, const Plan& plan, DataType type) {
  assert(plan.row == nullptr || plan.row->algorithm == plan.algorithm);
  if (plan.row == nullptr) return true;  // copies, or one rank
  return plan.in_memory() || is_reproducible(facts, plan.row->order, type);
}

std::string name_of(const HostStrategyRow& row, const Plan& plan) {
  if (row.name != nullptr) return row.name;
  const bool reads = plan.protocol == Protocol::kRead;
  return std::string(name(plan.algorithm)) + (reads ? " by reads" : "");
}

}  // namespace rondo
