// Supervision of waits: deadlines, aborts, faults of peers, deaths, mismatched calls.
#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/staging/hosted_rank.h"
#include "collectives/host/fiber_group.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"

namespace rondo {
namespace {

// A check that comes later than this after the one before it means that the waiter itself did not
// run (stopped, debugged, or the machine slept): only this much is counted.
constexpr std::int64_t kLongestGap = 250'000'000;

// Looking costs a system call or several loads, so it is done no more often than this.
constexpr std::int64_t kCheckPeriod = 50'000;
constexpr std::int64_t kPartingPeriod = 10'000'000;
// A wait of this length asks the other hosts what they are doing.
constexpr std::int64_t kFirstQuestion = 200'000'000;

}  // namespace

int CommunicatorState::local_of(int global) const {
  const auto it = std::lower_bound(local_ranks.begin(), local_ranks.end(), global);
  return it != local_ranks.end() && *it == global ? static_cast<int>(it - local_ranks.begin()) : -1;
}

int CommunicatorState::global_of(const WaitSite& site) const {
  return site.peer >= 0 ? local_ranks[site.peer] : site.global_rank;
}

int CommunicatorState::peer_of(const WaitSite& site) const {
  return site.peer >= 0 || site.global_rank < 0 ? site.peer : local_of(site.global_rank);
}

std::string CommunicatorState::rank_name(int global) const {
  const RankFacts& facts_of_rank = ranks[global];
  return fmt::format("rank {} (pid {} on {})", facts_of_rank.rank, facts_of_rank.pid,
                     facts_of_rank.hostname);
}

std::string CommunicatorState::current_call() const {
  if (is_message(current)) return to_string(current);
  return fmt::format("call {}, {}", host.sequence, to_string(current));
}

void CommunicatorState::install_supervisor(bool in_fiber) {
  Waiter::Supervisor supervisor;
  supervisor.self = this;
  // Executors end a wait in order; an exception would pass them by.
  supervisor.keep_waiting = [](void* self, const WaitSite& site, bool first) {
    auto& state = *static_cast<CommunicatorState*>(self);
    bool goes_on = false;
    (void)state.or_fault([&] { return goes_on = state.keep_waiting(site, first), done(); }).ok();
    return goes_on;
  };
  if (in_fiber || links != nullptr)
    supervisor.suspend = [](void* self, bool fresh) {
      auto& state = *static_cast<CommunicatorState*>(self);
      (void)state.or_fault([&] { return state.suspend_rank(fresh), done(); }).ok();
    };
  host.waiter.set_supervisor(supervisor);
}

bool CommunicatorState::keep_waiting(const WaitSite& site, bool first) {
  const std::int64_t now = now_ns();
  if (ended.load(std::memory_order_acquire) != kRunning) return false;
  if (faulted.load(std::memory_order_acquire)) return false;  // by another part of this rank
  const double limit = timeout_seconds.load(std::memory_order_relaxed);
  if (first) {
    waited_ns = 0;
    remote_error_since = -1;
    last_check_ns = now;
    std::fill(seen_parted.begin(), seen_parted.end(), 0);
    circle.clear();
    next_question_ns = std::min(kFirstQuestion, static_cast<std::int64_t>(limit * 1e9 / 4));
    show_wait(site);
    return !adopt_peer_fault();
  }
  if (adopt_peer_fault()) return false;  // before any sleep: its ring may lie behind
  if (now - last_check_ns < kCheckPeriod) return true;
  waited_ns += std::min(now - last_check_ns, kLongestGap);
  last_check_ns = now;
  ProgressLine& progress = *host.self().progress;
  // The other of two parts has ended: what it last waited for is shown, not what this one does.
  if (waiting_parts == 1 && HostAtomics::load_relaxed(progress.state) == kWaitingTwice)
    show_wait(site);
  HostAtomics::store_release(progress.checks, HostAtomics::load_relaxed(progress.checks) + 1);
  if (check_mismatch() || check_partings(site) || check_remote(site) ||
      check_elsewhere(global_of(site)) || check_circle() || check_outsiders())
    return false;
  if (static_cast<double>(waited_ns) < limit * 1e9) return true;
  const int awaited = global_of(site), blamed = last_of_chain(awaited);
  std::string who = blamed >= 0 ? rank_name(blamed) : "its peers";
  if (blamed != awaited) who += fmt::format(" (by way of rank {})", awaited);
  raise(make_fault(
      Status::kTimeout, blamed,
      fmt::format("{}. All ranks:\n{}", fault_texts::timed_out(rank, limit, who, current_call()),
                  describe_ranks())));
  return false;
}

// Tells everybody what this rank waits for.
void CommunicatorState::show_wait(const WaitSite& site) {
  ProgressLine& progress = *host.self().progress;
  HostAtomics::store_relaxed(progress.sequence, host.sequence);
  HostAtomics::store_relaxed(progress.step, host.step);
  HostAtomics::store_relaxed(progress.waiting_for, static_cast<std::int32_t>(global_of(site)));
  HostAtomics::store_relaxed(progress.state, waiting_parts > 1 ? kWaitingTwice : kWaiting);
  HostAtomics::store_relaxed(progress.quiet, std::uint32_t{0});
  store_record(progress.call, current);
  HostAtomics::store_release(progress.waits, HostAtomics::load_relaxed(progress.waits) + 1);
}

Fault CommunicatorState::make_fault(Status status, int culprit, std::string text) const {
  Fault made;
  made.status = status;
  made.rank = rank;
  made.culprit = culprit;
  made.sequence = host.sequence;
  made.own = current;
  made.text = std::move(text);
  return made;
}

void CommunicatorState::raise(Fault raised, bool tells_other_hosts) {
  std::shared_ptr<gpu::HostedRank> windows;
  {
    std::lock_guard lock(fault_mutex);
    if (fault) return;
    fault = std::move(raised);
    windows = window_rank;
  }
  faulted.store(true, std::memory_order_release);
  const Fault& kept = *fault;  // for good
  // Memory may be short, and peers of this host learn it all the same.
  const auto tell = [&](const auto& how) {
    (void)guarded("telling of a fault", [&] { return how(), done(); }).ok();
  };
  tell([&] { RONDO_WARN("{}", kept.text); });
  if (team) tell([&] { team->stop_kernels(); });
  if (hosted) tell([&] { hosted->end(kept); });
  if (on_fault) tell([&] { on_fault(kept); });
  if (windows) tell([&] { windows->end(kept); });
  if (tells_other_hosts) tell([&] { tell_other_hosts(kept); });
  publish_fault(kept);
}

void CommunicatorState::publish_fault(const Fault& raised) {
  if (host.peers.empty()) return;
  FaultSlot& slot = *host.self().fault;
  slot.status = static_cast<std::int32_t>(raised.status);
  slot.rank = raised.rank;
  slot.culprit = raised.culprit;
  slot.sequence = raised.sequence;
  slot.own = raised.own;
  slot.other = raised.other;
  const std::size_t length = std::min(raised.text.size(), sizeof(slot.text) - 1);
  std::memcpy(slot.text, raised.text.data(), length);
  slot.text[length] = '\0';
  HostAtomics::store_release(slot.state, 1u);
  HostAtomics::store_release(*host.self().faulted, std::uint8_t{1});
  wake_peers();
}

void CommunicatorState::wake_peers() {
  for (int r = 0; r < host.size; ++r) {
    ring<DoorbellAtomics>(*host.peers[r].bell);
  }
}

bool CommunicatorState::adopt_peer_fault() {
  for (int r = 0; r < host.size; ++r) {
    if (r == host.rank || HostAtomics::load_acquire(*host.peers[r].faulted) == 0) continue;
    const FaultSlot& slot = *host.peers[r].fault;
    if (HostAtomics::load_acquire(slot.state) == 0) continue;
    Fault adopted;
    adopted.status = static_cast<Status>(slot.status);
    adopted.rank = slot.rank;
    adopted.culprit = slot.culprit;
    adopted.sequence = slot.sequence;
    adopted.own = slot.own;
    adopted.other = slot.other;
    adopted.text = printable_lines({slot.text, strnlen(slot.text, sizeof(slot.text))});
    raise(std::move(adopted));
    return true;
  }
  return false;
}

bool CommunicatorState::check_mismatch() {
  // Messages are not announced: the newest announcement belongs to the collective before them.
  if (current.collective == Collective::kNone || is_message(current)) return false;
  for (int r = 0; r < host.size; ++r) {
    const AnnounceLine& line = host.peers[r].announcements[host.sequence % kAnnounceDepth];
    if (r == host.rank || HostAtomics::load_acquire(line.sequence) != host.sequence) continue;
    const CallRecord theirs = line.record;
    if (theirs == current) continue;
    on_mismatch(local_ranks[r], current, theirs);
    return true;
  }
  return false;
}

// Whether a rank of this host, should it have ended, has left something undone that the call in
// progress needs: the very thing waited for, a part in this collective, or a message.
bool CommunicatorState::needs(const WaitSite& site, int local) const {
  const int global = local_ranks[local];
  if (global_of(site) == global) return true;
  if (site.needs != nullptr) return site.needs(site.self, global);
  return !is_message(current) &&
         HostAtomics::load_acquire(host.peers[local].progress->finished) < host.sequence;
}

bool CommunicatorState::reach_first(int local, std::uint64_t place) {
  const auto& neighbour = group->processes[group->process_of_member[local]].neighbour;
  const Done mapped = neighbour->reach(place);
  if (!mapped.ok()) raise(make_fault(mapped.status(), rank, mapped.error().text));
  return mapped.ok();
}

// A peer that has ended, or destroyed its communicator, is a fault only for what it left undone:
// what is waited for is evaluated once more between the first sight of its parting and the fault.
bool CommunicatorState::check_partings(const WaitSite& site) {
  using fault_texts::Parting;
  if (!group || last_check_ns - last_parting_check_ns < kPartingPeriod) return false;
  last_parting_check_ns = last_check_ns;
  const bool any_ended = poll(pidfds.data(), pidfds.size(), 0) > 0;
  for (int r = 0; r < host.size; ++r) {
    const bool ended_now = any_ended && pidfds[group->process_of_member[r]].revents != 0;
    const bool left = HostAtomics::load_acquire(host.peers[r].progress->state) == kLeft;
    const bool seen_before = std::exchange(seen_parted[r], ended_now || left);
    if (!(ended_now || left) || !seen_before || !needs(site, r)) continue;
    const Parting parting = left ? Parting::kLeft : Parting::kEnded;
    const std::string name = rank_name(local_ranks[r]);
    raise(make_fault(Status::kRemoteError, local_ranks[r],
                     is_message(current)
                         ? fault_texts::gone_from_message(name, parting, to_string(current), rank)
                         : fault_texts::gone_before(name, parting, current_call(), rank)));
    return true;
  }
  return false;
}

}  // namespace rondo
