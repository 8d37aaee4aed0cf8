// SPDX-License-Identifier: Apache-2.0
// ChoiceLog: one log line under TUNING for the first call of each size: the chosen algorithm, its
// predicted time, the next best algorithm with its time, and whether these rest on priors.
//
// Called after a plan was made, on one rank of a communicator and by one thread at a time; calls
// with a cached plan do not reach it. If the line is not enabled, the cost is a check of the log
// level. The first kMaxSizes sizes of a communicator are logged.
//
//   choices_.report(facts, record, plan);
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "collectives/planner/device_plan.h"
#include "collectives/planner/planner.h"

namespace rondo {

// "AllReduce(count 1024, float32, sum): oneshot, predicted 1.2 us; next best twoshot, 1.9 us; ..."
std::string choice_text(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
std::string choice_text(const gpu::DevicePlanFacts& facts, const CallRecord& record,
                        const gpu::DevicePlan& plan);

class ChoiceLog {
 public:
  static constexpr std::size_t kMaxSizes = 1000;

  void report(const PlanFacts& facts, const CallRecord& record, const Plan& plan) {
    if (is_due(record)) write(choice_text(facts, record, plan));
  }
  void report(const gpu::DevicePlanFacts& facts, const CallRecord& record,
              const gpu::DevicePlan& plan) {
    if (is_due(record)) write(choice_text(facts, record, plan));
  }

 private:
  bool is_due(const CallRecord& record);
  static void write(const std::string& text);

  std::set<std::pair<Collective, std::uint64_t>> reported_;  // collectives and their bytes
};

}  // namespace rondo
