// SPDX-License-Identifier: Apache-2.0
// CommunicatorState: all state of a Communicator: its rank, and what it needs to create children.
// make_state() (create.cc): its ranks join, exchange their records, connect on their hosts, agree
// on plans, and bind to their GPUs if they have any.
//
// Collective. Guarantees: a rank that fails reports it to all others, so that no rank waits until
// its deadline. Every wait ends at the request's init timeout or when the request is aborted.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "collectives/context/comm_options.h"
#include "collectives/host/rank_state.h"
#include "collectives/profiler/call_events.h"
#include "collectives/status/status_service.h"
#include "collectives/trace/black_box.h"

namespace rondo {

class CommunicatorState : public RankState {
 public:
  std::shared_ptr<bootstrap::Listener> listener;
  // Number of children so far; the secret of a split depends on it. Shrinks are not counted: after
  // a fault, ranks may have tried different numbers of times (collectives/communicator/shrink.h).
  std::uint64_t splits = 0;
  std::mutex ended_mutex;
  std::set<int> ended_elsewhere;  // ranks of other hosts that a shrink found to have ended
  std::uint64_t meetings = 0;     // number of meet_again() calls so far
  std::uint64_t enqueues = 0;     // number of groups of calls on GPUs so far
  trace::BlackBox black_box{*this};
  std::unique_ptr<profiler::CallEvents> call_events;  // null: no profiler plugin
  std::unique_ptr<StatusSeat> status;  // last: status queries read the rank until it is destroyed
};

Result<std::unique_ptr<CommunicatorState>> make_state(const CreateRequest& request);

}  // namespace rondo
