// SPDX-License-Identifier: Apache-2.0
// The strategies for collectives of ranks on GPUs, one row each.
//
// The row with the least predicted time runs (device_work.h). A new strategy needs a row here and
// one in collectives/gpu/launch/strategies.cc.
#pragma once

#include <span>

#include "collectives/planner/device_facts.h"
#include "collectives/planner/device_work.h"
#include "collectives/planner/strategy.h"

namespace rondo::gpu {

// Who launches the calls of a strategy.
enum class Runner : std::uint8_t {
  kEveryDevice,  // a kernel on each device (collectives/gpu/launch/strategies.h)
  kOneDevice,    // direct kernels or copies of one device
  kLeader,       // rank 0's process
  kMessages,     // launches of messages
  kCopyEngines
};
// Whose kernels work in symmetric windows: none; all; if all buffers are in multicast windows.
enum class Windows : std::uint8_t { kNone, kAll, kMulticast };
// What tuner plugins may do: nothing; replace it by an offered row; choose it.
enum class Tuning : std::uint8_t { kFixed, kReplaceable, kOffered };
// How `rondo simulate` plays it (collectives/model).
enum class Simulation : std::uint8_t { kNone, kConnected, kPush, kStaged, kMulticast, kMessages };

struct DeviceTraits {
  constexpr DeviceTraits(Runner by, Tuning may = Tuning::kFixed, Simulation as = Simulation::kNone,
                         Windows in = Windows::kNone)
      : runner(by), tuning(may), simulation(as), windows(in) {}
  Runner runner;
  Tuning tuning;
  Simulation simulation;
  Windows windows;
};
using DeviceStrategyRow = StrategyRow<DevicePlanFacts, DevicePlan, NsAfterLaunch, DeviceTraits>;
std::span<const DeviceStrategyRow> device_strategies();
inline const DeviceStrategyRow& row_of(const DevicePlan& plan) {
  return row_of(device_strategies(), plan.strategy);
}
// Of calls that run as messages, and of messages.
inline DevicePlan plan_of_messages() { return {.strategy = Strategy::kMessages}; }

// False if the rank has three neighbours in a tree of some channel.
bool has_few_neighbours(const DevicePlanFacts& facts, int root);
// False for a reduction to such a rank: then every channel runs one tree
// (kernels/algorithms/rerooted_tree.h).
bool both_trees_take(const DevicePlanFacts& facts, const CallRecord& record);
// True if the direct kernels, or copies, may run the call in one launch.
bool allows_direct(const DevicePlanFacts& facts, const CallRecord& record);
// Collectives that a switch can sum or copy.
inline constexpr Collective kMulticastCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter};

// Explanations of a row's plans (device_reasons.cc).
namespace device_reasons {
std::string engines(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string multicast(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string ll_push(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string barrier(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string messages(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string direct(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string leader(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
std::string connected(const DevicePlanFacts&, const CallRecord&, const DevicePlan&);
// Details of plans with rounds: multicast; LL push and connected.
void multicast_rounds(const DevicePlanFacts&, const CallRecord&, const DevicePlan&,
                      std::vector<ExplainRow>* rows);
void rounds(const DevicePlanFacts&, const CallRecord&, const DevicePlan&,
            std::vector<ExplainRow>* rows);
}  // namespace device_reasons

}  // namespace rondo::gpu
