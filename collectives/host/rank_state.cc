// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/rank_state.h"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/asymmetric_fence.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "base/process.h"
#include "base/seconds.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/rank/fiber_group.h"
#include "transport/cuda/deferred_free.h"

namespace rondo {
namespace {

RankState& state_of(void* owner) { return *static_cast<RankState*>(owner); }

}  // namespace

RankState::RankState() = default;
RankState::~RankState() {
  if (device == nullptr) return;
  // Normal work of other communicators ends within this time. Memory that is still in use is freed
  // later.
  constexpr double kGraceSeconds = 0.25;
  device.reset();
  gpu::free_deferred(kGraceSeconds);
}

bool RankState::forked() const { return made_in != fork_generation(); }

void RankState::connect_host_view() {
  assert(host.hooks.owner == nullptr && "once, when the rank is made");
  host::RankHooks& hooks = host.hooks;
  hooks.owner = this;
  hooks.on_mismatch = [](void* owner, int peer, const CallRecord& mine, const CallRecord& theirs,
                         std::uint64_t number) {
    RankState& state = state_of(owner);
    const auto reason = [&] {
      state.supervisor.comparer().on_mismatch(peer, mine, theirs, number);
      return ok_status();
    };
    (void)state.faults.or_fault(reason).ok();
  };
  hooks.await_touches = [](void* owner, const WaitSite& site, bool first) {
    return state_of(owner).withdrawal.await_touches(site, first);
  };
  hooks.cut_off = [](void* owner, const host::HostCall& call, std::uint32_t exposure) {
    state_of(owner).withdrawal.cut_off_exposed(call, exposure);
  };
  hooks.exposable = [](void* owner, const host::HostCall& call, std::uint32_t exposure) {
    return state_of(owner).withdrawal.exposable(call, exposure);
  };
  hooks.still_whole = [](void* owner, const host::HostCall& call) {
    return state_of(owner).withdrawal.still_whole(call);
  };
  hooks.on_first_reach = [](void* owner, int peer, std::uint64_t place) {
    return state_of(owner).reach_first(peer, place);
  };
  hooks.on_failed_read = [](void* owner, int peer, int error) {
    RankState& state = state_of(owner);
    const auto raise = [&] { return state.raise_failed_read(peer, error), ok_status(); };
    (void)state.faults.or_fault(raise).ok();
  };
  hooks.on_commit = [](void* owner, void* at, std::size_t bytes) {
    return state_of(owner).commit(at, bytes);
  };
}

bool RankState::reach_first(int local, std::uint64_t place) {
  assert(local != host.rank);
  const Status mapped = members.process_of(local).neighbour->reach(place);
  if (!mapped.ok()) faults.raise(faults.make(mapped.code(), members.rank, mapped.error().text));
  return mapped.ok();
}

// The memory of a process ends shortly before its pidfd reports the end.
void RankState::raise_failed_read(int local, int error) {
  assert(error != 0 && local >= 0 && local != host.rank);
  constexpr double kLongestEnd = 1;  // s
  const int global = members.local_ranks[static_cast<std::size_t>(local)];
  const auto ended = [&] { return has_ended(members.process_of(local)); };
  const std::string name = members.name_of(global);
  if (error == ESRCH ? poll_until(ended, seconds_from_now(kLongestEnd)) : ended())
    return faults.raise(faults.make(
        StatusCode::kRemoteError, global,
        fault_texts::gone_before(name, fault_texts::Parting::kEnded, call.text(), members.rank)));
  faults.raise(faults.make(
      StatusCode::kRemoteError, global,
      fmt::format("rank {} could not read the buffer of {} in {}: {}; RONDO_CMA=0 copies buffers "
                  "through shared memory",
                  members.rank, name, call.text(), strerror(error))));
}

bool RankState::commit(void* at, std::size_t bytes) {
  assert(at != nullptr && bytes > 0);
  const Status present = shm::commit(at, bytes, "staging memory");
  if (present.ok()) {
    committed_bytes += bytes;
    if (activity == nullptr) return true;
    std::uint64_t& shown = activity->memory.shared_bytes;
    HostAtomics::store_relaxed(shown, HostAtomics::load_relaxed(shown) + bytes);
    return true;
  }
  const auto raise = [&] {
    faults.raise(faults.make(present.code(), members.rank, present.error().text));
    return ok_status();
  };
  (void)faults.or_fault(raise).ok();
  return false;
}

Status RankState::run_calls(std::span<const Call> calls, bool beside) {
  Status result = faults.or_fault([&] {
    supervisor.install(FiberGroup::current() != nullptr);
    engine.choose_budget(beside);
    return engine.run_group(calls);
  });
  if (!result.ok()) host.recorder.end(result.code());
  return result;
}

Status RankState::enter() {
  if (forked())
    return fail(StatusCode::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  // The C API makes one call at a time (CallOrder). This check finds most errors of other callers
  // without the cost of an atomic exchange per call.
  if (inside_.load(std::memory_order_relaxed))
    return fail(StatusCode::kInvalidUsage,
                "another thread is inside a call of this communicator: one thread at a time");
  inside_thread_.store(pthread_self(), std::memory_order_relaxed);
  store_before_loads(inside_, true);
  Status standing = faults.standing();
  if (!standing.ok()) leave();
  return standing;
}

void RankState::end_calls(const char* what) {
  Fault report;
  if (!host.peers.empty()) {
    report.status = StatusCode::kRemoteError;
    report.rank = report.culprit = members.rank;
    report.sequence = HostAtomics::load_relaxed(host.self().steps->sequence);
    (void)guarded("ending calls", [&] {
      report.text = fmt::format("rank {} {} the communicator", members.rank, what);
      faults.raise(report, false);
      return ok_status();
    }).ok();
    faults.wake_peers();
  }
  // A thread inside a call leaves at its next check, at most 100 ms after its current copy. If the
  // thread never runs again (cancelled, or interrupted by this signal handler or fiber), it must
  // not delay the end of the communicator.
  constexpr double kMaxSeconds = 10;
  heavy_fence();
  const auto is_within = [this] {
    return pthread_equal(inside_thread_.load(std::memory_order_relaxed), pthread_self());
  };
  const auto has_left = [&] { return !inside_.load(std::memory_order_seq_cst) || is_within(); };
  if (!poll_until(has_left, seconds_from_now(kMaxSeconds))) {
    RONDO_WARN("rank {} {} the communicator, but a thread is still inside a call of it",
               members.rank, what);
    return;
  }
  // Sends the first fault, which may be an earlier one, so that other hosts get only one reason.
  if (const auto kept = faults.fault(); kept && !inside_.load(std::memory_order_seq_cst))
    faults.report_to_other_hosts(*kept);
}

}  // namespace rondo
