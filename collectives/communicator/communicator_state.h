// SPDX-License-Identifier: Apache-2.0
// CommunicatorState: all state of a Communicator: its rank, and what it needs to create children.
// make_state() (create.cc): its ranks join, exchange their records, connect on their hosts, agree
// on plans, and bind to their GPUs if they have any.
//
// Collective. Guarantees: a rank that fails reports it to all others, so that no rank waits until
// its deadline. Every wait ends at the request's init timeout or when the request is aborted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/context/comm_options.h"
#include "collectives/host/rank_state.h"
#include "collectives/profiler/call_events.h"
#include "collectives/status/status_service.h"
#include "collectives/trace/black_box.h"

namespace rondo {

class MeetingAgain;

class CommunicatorState : public RankState {
 public:
  std::shared_ptr<bootstrap::Listener> listener;
  // Number of children so far; the secret of a split depends on it. Shrinks are not counted: after
  // a fault, ranks may have tried different numbers of times (collectives/communicator/shrink.h).
  std::uint64_t splits = 0;
  std::mutex ended_mutex;
  std::set<int> ended_elsewhere;  // ranks of other hosts that a shrink found to have ended
  std::uint64_t meetings = 0;     // number of meet_again() calls so far
  std::shared_ptr<MeetingAgain> kept_meeting;  // of meet_in_order(), from its first call on
  std::uint64_t enqueues = 0;                  // number of groups of calls on GPUs so far
  trace::BlackBox black_box{*this};
  std::unique_ptr<profiler::CallEvents> call_events;  // null: no profiler plugin
  std::unique_ptr<StatusSeat> status;  // last: status queries read the rank until it is destroyed
};

Result<std::unique_ptr<CommunicatorState>> make_state(const CreateRequest& request);

// child_request(): the request with which some ranks of a communicator create a child, without any
// message between them.
//
// The members join at the listener that their first member opened when the parent was created. The
// child's secret is derived from the parent's secret, the kind and number of the child, and its
// members. Guarantees: only ranks with the parent's secret can compute it. Works after a fault of
// the parent. The caller sets the options.
//
//   RONDO_TRY(CreateRequest child, child_request(parent, members, "split", number));
//
// members: ranks of the parent in the child's order; this rank must be one of them.
Result<CreateRequest> child_request(const CommunicatorState& parent,
                                    const std::vector<int>& members, std::string_view kind,
                                    std::uint64_t number = 0);
// The same for survivors (collectives/communicator/shrink.h), ascending. All lists that begin with
// the same rank have the same secret.
Result<CreateRequest> survivors_request(const CommunicatorState& parent,
                                        const std::vector<int>& survivors);

// meet_again(): exchanges a few bytes between all ranks of a communicator on GPUs: windows, colors
// of a split, tickets of a grow.
//
// The host engine of such ranks serves calls in stream order and cannot run a call of the host at
// once. This exchange therefore uses a new session at the listener of the communicator's first
// rank. Collective. Guarantees: ends at the communicator's timeout, fault or end, or if a rank on
// this host dies. A failure becomes the communicator's fault. Cost: one session
// (bootstrap/session.h), about a millisecond.
//
// what: the API function that calls this, the same on every rank.
Result<std::vector<std::vector<std::byte>>> meet_again(CommunicatorState& state,
                                                       std::string_view what,
                                                       std::span<const std::byte> mine);
// The same over a session of its own that stays open: two hops a level of its tree. For what ranks
// exchange before each call of a kind.
Result<std::vector<std::vector<std::byte>>> meet_in_order(CommunicatorState& state,
                                                          std::string_view what,
                                                          std::span<const std::byte> mine);

}  // namespace rondo
