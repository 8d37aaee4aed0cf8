// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_plan.h"

#include <algorithm>
#include <cassert>
#include <span>

#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_strategies.h"
#include "collectives/planner/device_work.h"

namespace rondo::gpu {
namespace {

// Guarantees of hardware that were measured; see tests/gpu/probe for the method.
struct WholeLines {
  int capability;
  LinePath path;
  const char* evidence;
};
// None yet: LL128 runs only if NCCL_PROTO requests it.
constexpr std::span<const WholeLines> kWholeLines;

Status nothing_left(const DevicePlanFacts& facts, const CallRecord& record) {
  const bool apart = reduces(record.collective) && !facts.all_reach && !facts.reproducible;
  return fail(StatusCode::kInvalidUsage,
              "No algorithm/protocol available for function {} with datatype {} on CUDA devices."
              "{}{}{}",
              name(record.collective), name(record.type),
              facts.reproducible ? " RONDO_REPRODUCIBLE=1 needs devices that reach each other's "
                                   "memory, and an NCCL_ALGO that allows direct."
                                 : "",
              apart ? " They do not reach each other's memory by P2P, so none sums for all: let "
                      "NCCL_ALGO allow ring or tree."
                    : "",
              facts.max_channels == 0 ? " The devices have no room for connections." : "");
}

// The planner's choice, or the one that facts.tuned prefers if it can run.
Candidate<DeviceStrategyRow> tuned_choice(const DevicePlanFacts& facts, const CallRecord& record) {
  const TunedWay way = facts.tuned == nullptr ? TunedWay{} : facts.tuned->of(record, facts.ranks);
  if (way == TunedWay{}) return choose(device_strategies(), facts, record);
  DevicePlanFacts bounded = facts;
  // Stays within the program's limits; without connections nothing needs a limit.
  if (way.max_channels > 0 && facts.max_channels > 0)
    bounded.max_channels = std::clamp<int>(
        way.max_channels, std::min(facts.min_channels, facts.max_channels), facts.max_channels);
  const auto own = choose(device_strategies(), bounded, record);
  if (!way.chosen || own.row == nullptr || own.row->traits.tuning == Tuning::kFixed) return own;
  for (const DeviceStrategyRow& row : device_strategies()) {
    if (row.traits.tuning != Tuning::kOffered || !row.supports(bounded, record)) continue;
    auto made = candidate_of(row, bounded, record);
    if (made.plan.algorithm == way.algorithm && made.plan.protocol == way.protocol) return made;
  }
  return own;
}

}  // namespace

bool lines_stay_whole(int capability, LinePath path) {
  return std::any_of(kWholeLines.begin(), kWholeLines.end(), [&](const WholeLines& row) {
    return row.capability == capability && row.path == path;
  });
}

bool wants_connections(const DevicePlanFacts& facts) {
  if (facts.ranks < 2) return false;
  if (facts.devices > 1) return true;
  for (int c = static_cast<int>(Collective::kAllReduce);
       c <= static_cast<int>(Collective::kReduceScatter); ++c) {
    CallRecord record;
    record.collective = static_cast<Collective>(c);
    if (!allows_direct(facts, record)) return true;
  }
  return false;
}

bool wants_multicast(const DevicePlanFacts& facts) {
  return !facts.reproducible &&
         std::any_of(
             std::begin(kMulticastCollectives), std::end(kMulticastCollectives),
             [&](Collective which) { return facts.algorithms.allows(which, Algorithm::kNvls); });
}

Result<DevicePlan> make_device_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  const auto best = tuned_choice(facts, record);
  if (best.row == nullptr) return nothing_left(facts, record).error();
  return best.plan;
}

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan) {
  return device_ns(facts, record, plan, row_of(plan).work);
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

int direct_ctas(double link_gbs, const DeviceCosts& costs) {
  assert(link_gbs >= 0);
  const sim::VerbCost cost = direct_cost(costs);
  const double cta_gbs = std::min(cost.sum_gbs, cost.copy_gbs);
  int ctas = kDirectCtasOfGpu;
  while (ctas < cuda::kBarrierCtas && ctas * cta_gbs < link_gbs * kDirectEfficiency) ctas *= 2;
  return std::min(ctas, cuda::kBarrierCtas);
}

}  // namespace rondo::gpu
