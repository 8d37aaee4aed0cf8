// SPDX-License-Identifier: Apache-2.0
// HostEngine: runs a rank's calls in host memory. It plans a collective, then runs it directly
// within the host, along connections, as messages, or fused with adjacent calls of its group.
//
// Guarantees: returns when the call's data and credits have left this rank, or with the rank's
// fault. Called by one thread at a time, inside the communicator's entrance. Cost: an uncontended
// call adds a plan lookup to its algorithm.
#pragma once

#include <memory>
#include <span>

#include "collectives/context/call.h"
#include "collectives/host/connected_calls.h"
#include "collectives/host/fused_calls.h"
#include "collectives/host/message_calls.h"
#include "collectives/host/one_sided_calls.h"
#include "collectives/host/ordered_calls.h"
#include "collectives/host/verified_calls.h"
#include "collectives/planner/choice_log.h"
#include "collectives/planner/recent_plans.h"
#include "collectives/rank/rank_context.h"

namespace rondo {

class HostEngine : RankPart {
 public:
  HostEngine(RankContext& context, OneSidedCalls& one_sided)
      : RankPart(context),
        one_sided_(one_sided),
        messages_(context),
        connected_(context),
        verified_(context, [this](const Call& call) { return exchange(call); }),
        fused_(context, last_plan_, verified_) {}

  // Order: collectives, then all sends and receives at once, then puts and signals.
  Status run_group(std::span<const Call> calls);
  Status run_collective(const Call& call);
  const LastPlan& last_plan() const { return last_plan_; }
  // One collective in `every` is verified; 0: none. All ranks give the same value.
  void verify(std::uint64_t every, const bootstrap::Secret& secret) {
    verified_.start(every, secret);
  }

  // How long waits spin: shorter if the program computes at the same time.
  void set_budget(const Waiter::Budget& alone);
  void choose_budget(bool beside);

 private:
  Status announce_empty(const CallRecord& record);
  Status run_parts(const Call& whole);
  // whole: the program's call, if `call` is a step of it.
  Status run_planned(const Call& call, const Plan& plan, const CallRecord* whole = nullptr);
  OrderedCalls& ordered();
  Status run_verified(const Call& call, const Plan& plan);
  Status exchange(const Call& call);

  LastPlan last_plan_;
  OneSidedCalls& one_sided_;
  MessageCalls messages_;
  ConnectedCalls connected_;
  VerifiedCalls verified_;
  FusedCalls fused_;
  std::unique_ptr<OrderedCalls> ordered_;  // from the first such call on
  using Planned = OrderedCalls::Planned;
  // None while calls are verified, so that only a call that is planned asks whether it is.
  RecentPlans<Planned> plans_;
  double moving_ns_ = 0;  // of the call that runs
  Waiter::Budget alone_budget_;
  bool beside_the_program_ = false;
  ChoiceLog choices_;
};

}  // namespace rondo
