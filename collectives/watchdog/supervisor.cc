// SPDX-License-Identifier: Apache-2.0
#include "collectives/watchdog/supervisor.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/seconds.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"

namespace rondo {
namespace {

// A longer gap between two checks means that the waiter itself did not run (stopped, debugged, or
// the machine slept): only this much is counted.
constexpr std::int64_t kLongestGap = 250'000'000;

// A check costs a system call or several loads, so checks are at least this far apart.
constexpr std::int64_t kCheckPeriod = 50'000;
constexpr std::int64_t kPartingPeriod = 10'000'000;

}  // namespace

void Supervisor::watch_processes() {
  assert(pidfds_.empty() && "once, when the rank is made");
  seen_parted_.assign(static_cast<std::size_t>(host_.size), 0);
  for (const shm::PeerProcess& process : members_.group->processes)
    pidfds_.push_back({process.neighbour ? process.neighbour->pidfd() : -1, POLLIN, 0});
}

// An exception becomes a fault: executors end a wait in order, an exception would bypass them.
void Supervisor::install(bool suspends) {
  Waiter::Supervisor hooks;
  hooks.self = this;
  hooks.keep_waiting = [](void* self, const WaitSite& site, bool first) {
    auto& supervisor = *static_cast<Supervisor*>(self);
    bool goes_on = false;
    (void)supervisor.faults_
        .or_fault([&] { return goes_on = supervisor.keep_waiting(site, first), ok_status(); })
        .ok();
    return goes_on;
  };
  if (suspends || context_.remote.links() != nullptr) hooks.suspend = suspend;
  hooks.waited = [](void* self, const WaitSite& site) {
    const auto& supervisor = *static_cast<Supervisor*>(self);
    supervisor.host_.recorder.end_wait(site.of_network ? -1 : supervisor.members_.global_of(site));
  };
  hooks.before_yield = suspends ? leave_core<true> : leave_core<false>;
  host_.waiter.set_supervisor(hooks);
}

template <bool is_fiber>
void Supervisor::leave_core(void* self) {
  host::HostRank& host = static_cast<Supervisor*>(self)->host_;
  host.nudge.look(host.peers, host.rank, is_fiber);
}

bool Supervisor::suspend(void* self, const WaitSite& site, bool fresh) {
  RankContext& context = static_cast<Supervisor*>(self)->context_;
  bool may_park = false;
  (void)context.faults
      .or_fault([&] { return may_park = context.remote.suspend(site, fresh), ok_status(); })
      .ok();
  return may_park;
}

bool Supervisor::keep_waiting(const WaitSite& site, bool first) {
  assert(site.peer < host_.size && site.global_rank < members_.size);
  const std::int64_t now = now_ns();
  if (faults_.ended() != FaultState::kRunning) return false;
  if (faults_.is_raised()) return false;  // by another part of this rank
  const double limit = context_.wait_limit_seconds();
  if (first) {
    waited_ns_ = 0;
    last_check_ns_ = now;
    std::fill(seen_parted_.begin(), seen_parted_.end(), 0);
    context_.remote.begin_wait();
    statuses_.begin_wait(limit * 1e9);
    graph_.begin_wait();
    show_wait(site);
    show_time(now, true);
    host_.recorder.begin_wait();
    return !faults_.adopt_from_peers();
  }
  if (faults_.adopt_from_peers()) return false;  // before any sleep: its bell may have rung already
  if (now - last_check_ns_ < kCheckPeriod) return true;
  waited_ns_ += std::min(now - last_check_ns_, kLongestGap);
  last_check_ns_ = now;
  ProgressLine& progress = *host_.self().progress;
  // The other of two parts has finished: republish, because the published wait may be the other's.
  if (call_.waiting_parts == 1 && HostAtomics::load_relaxed(progress.state) == kWaitingTwice)
    show_wait(site);
  HostAtomics::store_release(progress.checks, HostAtomics::load_relaxed(progress.checks) + 1);
  show_time(now, false);
  if (comparer_.check() || check_partings(site) || context_.remote.check(site, waited_ns_) ||
      statuses_.check(members_.global_of(site), waited_ns_) || graph_.check(waited_ns_))
    return false;
  if (static_cast<double>(waited_ns_) < limit * 1e9) return true;
  raise_timeout(site, limit);
  return false;
}

void Supervisor::raise_timeout(const WaitSite& site, double limit) {
  assert(limit > 0);
  const int awaited = members_.global_of(site), blamed = graph_.last_of_chain(awaited);
  std::string who = blamed >= 0 ? members_.name_of(blamed) : "its peers";
  if (blamed != awaited) who += fmt::format(" (through rank {})", awaited);
  faults_.raise(
      faults_.make(StatusCode::kTimeout, blamed,
                   fmt::format("{}. All ranks:\n{}",
                               fault_texts::timed_out(members_.rank, limit, who, call_.text()),
                               graph_.describe_ranks())));
}

// Publishes what this rank waits for.
void Supervisor::show_wait(const WaitSite& site) {
  ProgressLine& progress = *host_.self().progress;
  HostAtomics::store_relaxed(progress.sequence, host_.sequence);
  HostAtomics::store_relaxed(progress.step, host_.step);
  HostAtomics::store_relaxed(progress.waiting_for, site.of_network ? -1 : members_.global_of(site));
  HostAtomics::store_relaxed(progress.state, call_.waiting_parts > 1 ? kWaitingTwice : kWaiting);
  HostAtomics::store_relaxed(progress.quiet, std::uint32_t{0});
  store_record(progress.call, call_.record);
  HostAtomics::store_release(progress.waits, HostAtomics::load_relaxed(progress.waits) + 1);
}

// For status queries: how old the wait is, and that it still lasts.
void Supervisor::show_time(std::int64_t now, bool begins) {
  if (context_.activity == nullptr) return;
  if (begins) HostAtomics::store_relaxed(context_.activity->wait_began_ns, now);
  HostAtomics::store_relaxed(context_.activity->wait_seen_ns, now);
}

// True if a rank of this host, if it ended, left work undone that the call in progress needs: the
// awaited value, its part in this collective, or a message.
bool Supervisor::needs(const WaitSite& site, int local) const {
  const int global = members_.local_ranks[local];
  if (members_.global_of(site) == global) return true;
  if (site.needs != nullptr) return site.needs(site.self, global);
  return !is_message(call_.record) &&
         HostAtomics::load_acquire(host_.peers[local].progress->finished) < host_.sequence;
}

// A peer that ended, or destroyed its communicator, is a fault only for work that it left undone.
// So the wait's condition is evaluated once more between the first sight of its end and the fault.
bool Supervisor::check_partings(const WaitSite& site) {
  using fault_texts::Parting;
  if (!members_.group || last_check_ns_ - last_parting_check_ns_ < kPartingPeriod) return false;
  last_parting_check_ns_ = last_check_ns_;
  const bool any_ended = poll(pidfds_.data(), pidfds_.size(), 0) > 0;
  for (int r = 0; r < host_.size; ++r) {
    const bool ended_now = any_ended && pidfds_[members_.group->process_of_member[r]].revents != 0;
    const bool left = HostAtomics::load_acquire(host_.peers[r].progress->state) == kLeft;
    const bool seen_before = std::exchange(seen_parted_[r], ended_now || left);
    if (!(ended_now || left) || !seen_before || !needs(site, r)) continue;
    const Parting parting = left ? Parting::kLeft : Parting::kEnded;
    const std::string name = members_.name_of(members_.local_ranks[r]);
    faults_.raise(faults_.make(
        StatusCode::kRemoteError, members_.local_ranks[r],
        is_message(call_.record)
            ? fault_texts::gone_from_message(name, parting, to_string(call_.record), members_.rank)
            : fault_texts::gone_before(name, parting, call_.text(), members_.rank)));
    return true;
  }
  return false;
}

}  // namespace rondo
