// Supervision of waits: deadlines, aborts, faults of peers, deaths, mismatched calls.
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "collectives/communicator_state.h"
#include "collectives/fiber_group.h"

namespace rondo {
namespace {

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// A check that comes later than this after the one before it means that the waiter itself did not
// run (stopped, debugged, or the machine slept): only this much is counted.
constexpr std::int64_t kLongestGap = 250'000'000;

bool has_ended(const shm::PeerProcess& process) {
  pollfd entry{process.pidfd.get(), POLLIN, 0};
  return process.pidfd.valid() && poll(&entry, 1, 0) > 0;
}

// "stopped" for a process in state T, read from /proc.
bool is_stopped(int pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return false;
  char text[512] = "";
  const std::size_t length = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  text[length] = '\0';
  const char* after_name = std::strrchr(text, ')');
  return after_name != nullptr && (after_name[2] == 'T' || after_name[2] == 't');
}

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

void CommunicatorState::install_supervisor() {
  Waiter::Supervisor supervisor;
  supervisor.self = this;
  supervisor.keep_waiting = [](void* self, const WaitSite& site, bool first) {
    return static_cast<CommunicatorState*>(self)->keep_waiting(site, first);
  };
  if (FiberGroup::current() != nullptr || links != nullptr)
    supervisor.suspend = [](void* self, bool fresh) {
      static_cast<CommunicatorState*>(self)->suspend_rank(fresh);
    };
  host.waiter.set_supervisor(supervisor);
}

bool CommunicatorState::keep_waiting(const WaitSite& site, bool first) {
  const std::int64_t now = now_ns();
  if (first) {
    waited_ns = 0;
    remote_error_seen = false;
    std::fill(seen_dead.begin(), seen_dead.end(), false);
    ProgressLine& progress = *host.self().progress;
    HostAtomics::store_relaxed(progress.sequence, host.sequence);
    HostAtomics::store_relaxed(progress.step, host.step);
    HostAtomics::store_relaxed(progress.waiting_for, static_cast<std::int32_t>(global_of(site)));
    HostAtomics::store_release(progress.state, kInside);
  } else {
    waited_ns += std::min(now - last_check_ns, kLongestGap);
  }
  last_check_ns = now;
  const int ended_now = ended.load(std::memory_order_acquire);
  if (ended_now != kRunning) return false;
  if (adopt_peer_fault() || check_mismatch() || check_deaths(site) || check_remote(site))
    return false;
  const double limit = timeout_seconds.load(std::memory_order_relaxed);
  if (static_cast<double>(waited_ns) < limit * 1e9) return true;
  const int awaited = global_of(site);
  const std::string who = awaited >= 0 ? rank_name(awaited) : "its peers";
  raise(make_fault(
      Status::kTimeout, awaited,
      fmt::format("rank {} waited {} s for {} in call {}, {}; RONDO_TIMEOUT sets this "
                  "limit. Ranks of this host:\n{}",
                  rank, limit, who, host.sequence, to_string(current), describe_ranks())));
  return false;
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

void CommunicatorState::raise(Fault raised) {
  {
    std::lock_guard lock(fault_mutex);
    if (fault) return;
    fault = raised;
  }
  faulted.store(true, std::memory_order_release);
  RONDO_WARN("{}", raised.text);
  tell_other_hosts(raised);
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
  HostAtomics::store_seq_cst(*host.self().faulted, std::uint8_t{1});
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
    adopted.text.assign(slot.text, strnlen(slot.text, sizeof(slot.text)));
    raise(std::move(adopted));
    return true;
  }
  return false;
}

bool CommunicatorState::check_mismatch() {
  // Messages are not announced: the newest announcement belongs to the collective before them.
  if (current.collective == Collective::kNone || current.collective == Collective::kSend ||
      current.collective == Collective::kRecv)
    return false;
  for (int r = 0; r < host.size; ++r) {
    const AnnounceLine& line = host.peers[r].announcements[host.sequence % kAnnounceDepth];
    if (r == host.rank || HostAtomics::load_acquire(line.sequence) != host.sequence) continue;
    const CallRecord theirs = line.record;
    if (theirs == current) continue;
    on_mismatch(local_ranks[r], theirs);
    return true;
  }
  return false;
}

void CommunicatorState::on_mismatch(int peer, const CallRecord& theirs) {
  Fault mismatch = make_fault(
      Status::kInvalidUsage, peer,
      fmt::format(
          "Mismatched calls: in call {}, rank {} called {} and rank {} called {}; all ranks "
          "must make the same calls in the same order",
          host.sequence, rank, to_string(current), peer, to_string(theirs)));
  mismatch.other = theirs;
  raise(std::move(mismatch));
}

// A peer that has ended is a fault only for what it left undone: the condition is evaluated once
// more between the first sight of its end and the fault, and only if this rank waits for it.
bool CommunicatorState::check_deaths(const WaitSite& site) {
  const int peer = peer_of(site);
  if (peer < 0 || !group) return false;
  const int process = group->process_of_member[peer];
  if (!has_ended(group->processes[process])) return false;
  if (!seen_dead[process]) {
    seen_dead[process] = true;
    return false;
  }
  raise(make_fault(
      Status::kRemoteError, local_ranks[peer],
      fmt::format("{} ended before it finished call {}, {}, in which rank {} waits for it",
                  rank_name(local_ranks[peer]), host.sequence, to_string(current), rank)));
  return true;
}

std::vector<int> CommunicatorState::ended_ranks() {
  std::vector<int> found;
  for (std::size_t r = 0; group && r < local_ranks.size(); ++r)
    if (has_ended(group->processes[group->process_of_member[r]])) found.push_back(local_ranks[r]);
  std::lock_guard lock(fault_mutex);
  if (fault && fault->status == Status::kRemoteError && fault->culprit >= 0 &&
      local_of(fault->culprit) < 0)
    found.push_back(fault->culprit);
  std::sort(found.begin(), found.end());
  return found;
}

std::string CommunicatorState::describe_ranks() const {
  std::string text;
  for (int r = 0; r < host.size; ++r) {
    const PeerPort& peer = host.peers[r];
    const std::uint64_t sequence = HostAtomics::load_acquire(peer.steps->sequence);
    const std::uint64_t inside_call = HostAtomics::load_acquire(peer.progress->sequence);
    const int waits_for = HostAtomics::load_acquire(peer.progress->waiting_for);
    text += fmt::format("  {}: ", rank_name(local_ranks[r]));
    if (group && has_ended(group->processes[group->process_of_member[r]])) {
      text += "ended";
    } else if (sequence < host.sequence) {
      text += fmt::format("not entered call {} (newest: {})", host.sequence, sequence);
      if (is_stopped(ranks[local_ranks[r]].pid)) text += ", stopped";
    } else {
      const AnnounceLine& line = peer.announcements[sequence % kAnnounceDepth];
      text += fmt::format("in or past call {}, {}, step {}", sequence, to_string(line.record),
                          HostAtomics::load_acquire(peer.steps->step));
      if (inside_call == sequence && waits_for >= 0)
        text += fmt::format(", waits for rank {}", waits_for);
      if (is_stopped(ranks[local_ranks[r]].pid)) text += ", stopped";
    }
    text += '\n';
  }
  return text;
}

}  // namespace rondo
