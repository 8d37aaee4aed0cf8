// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_plan.h"

#include <algorithm>
#include <span>

#include "collectives/planner/device_strategies.h"
#include "collectives/planner/protocol_filter.h"

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
}  // namespace

const char* name(cuda::Protocol protocol) {
  constexpr const char* kNames[cuda::kProtocols] = {"Simple", "LL", "LL128"};
  return kNames[static_cast<int>(protocol)];
}

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

Result<std::uint8_t> parse_gpu_protocols(std::string_view text, std::uint8_t usual) {
  RONDO_TRY(const ProtocolFilter filter, parse_protocols(text, "NCCL_PROTO", usual));
  const FunctionSets& sets = filter.allowed;
  if (std::any_of(sets.begin(), sets.end(), [&](auto set) { return set != sets[0]; }))
    return fail(StatusCode::kInvalidUsage,
                "NCCL_PROTO='{}': between GPUs one list counts for all functions, such as "
                "'simple,ll'",
                text);
  return static_cast<std::uint8_t>(sets[0]);
}

}  // namespace rondo::gpu
