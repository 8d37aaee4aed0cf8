#include "collectives/planner.h"

#include <algorithm>

#include "collectives/tuning.h"
#include "transport/connection.h"

namespace rondo {
namespace {

// How many elements of a staging slot one round of `per_round` elements takes, by collective.
std::uint64_t window_factor(Collective collective, int ranks) {
  switch (collective) {
    case Collective::kAllToAll:
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return static_cast<std::uint64_t>(ranks);
    default:
      return 1;
  }
}

bool allowed(const PlanFacts& facts, Algorithm algorithm) {
  return (facts.algorithms >> static_cast<int>(algorithm)) & 1;
}

// Elements per cache line: parts of a round begin on lines.
std::uint64_t grain_of(DataType type) { return kLineBytes / size_of(type); }

Rounds rounds_of(const PlanFacts& facts, const CallRecord& record, std::uint64_t window_bytes) {
  const std::uint64_t grain = grain_of(record.type);
  const std::uint64_t factor = window_factor(record.collective, facts.ranks);
  std::uint64_t per_round = window_bytes / (factor * size_of(record.type));
  per_round = std::max<std::uint64_t>(per_round / grain * grain, 1);
  return {record.count, std::min(per_round, std::max<std::uint64_t>(record.count, 1)), grain};
}

bool fits_line(const PlanFacts& facts, const CallRecord& record) {
  const std::uint64_t bytes =
      record.count * window_factor(record.collective, facts.ranks) * size_of(record.type);
  return record.count <= kPayloadBytes && bytes <= kPayloadBytes &&
         facts.ranks <= tuning::kLineRanks && !(record.flags & CallRecord::kFused);
}

Algorithm choose_all_reduce(const PlanFacts& facts, std::uint64_t bytes) {
  for (const auto& row : tuning::kAllReduce)
    if (facts.ranks <= row.ranks)
      return bytes <= row.one_shot_up_to ? Algorithm::kOneShot : Algorithm::kTwoShot;
  return Algorithm::kTwoShot;
}

}  // namespace

const char* name(Protocol protocol) {
  constexpr const char* kNames[] = {"line", "staged", "simple"};
  return kNames[static_cast<int>(protocol)];
}

Result<Plan> make_plan(const PlanFacts& facts, const CallRecord& record) {
  Plan plan;
  const std::uint64_t bytes = record.count * size_of(record.type);
  if (record.collective == Collective::kAllReduce) {
    plan.algorithm = choose_all_reduce(facts, bytes);
    if (!allowed(facts, plan.algorithm))
      plan.algorithm =
          plan.algorithm == Algorithm::kOneShot ? Algorithm::kTwoShot : Algorithm::kOneShot;
    if (!allowed(facts, plan.algorithm))
      return fail(Status::kInvalidUsage,
                  "No algorithm/protocol available for function {} with datatype {}. NCCL_ALGO "
                  "leaves neither oneshot nor twoshot on one host",
                  name(record.collective), name(record.type));
    plan.in_place_safe = plan.algorithm == Algorithm::kTwoShot;
  } else {
    plan.algorithm = Algorithm::kDirect;
  }
  const bool small = plan.algorithm != Algorithm::kTwoShot && fits_line(facts, record);
  plan.protocol = small ? Protocol::kLine : Protocol::kStaged;
  if (plan.protocol == Protocol::kLine && plan.algorithm == Algorithm::kDirect &&
      record.collective == Collective::kReduce)
    plan.algorithm = Algorithm::kOneShot;
  // Ranks of one process read each other's buffers: no window limits a round. PreMulSum is staged.
  const bool exposed = facts.one_process && record.op != RedOp::kPreMulSum && plan.in_place_safe;
  const std::uint64_t window =
      exposed ? ~std::uint64_t{0} >> 8 : std::min(facts.slot_bytes, tuning::kRoundBytes);
  plan.rounds = small ? Rounds{record.count, std::max<std::uint64_t>(record.count, 1), 1}
                      : rounds_of(facts, record, window);
  plan.stream_stores = bytes >= tuning::kStreamStores;
  return plan;
}

}  // namespace rondo
