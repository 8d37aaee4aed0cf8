// What ranks tell of themselves while they wait: who waits for whom, in which call; circles of
// waits.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "collectives/communicator_state.h"
#include "collectives/peer_words.h"

namespace rondo {
namespace {

// Ranks that wait for each other are looked for only in waits that last.
constexpr std::int64_t kCirclePatience = 50'000'000;

}  // namespace

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

std::string describe_call(const PeerPort& peer, std::uint64_t newest) {
  const ProgressLine& progress = *peer.progress;
  const std::uint64_t sequence = HostAtomics::load_acquire(peer.steps->sequence);
  const std::uint64_t finished = HostAtomics::load_acquire(progress.finished);
  const CallRecord waits_in = load_record(progress.call);
  const bool waits = HostAtomics::load_acquire(progress.state) != kOutside &&
                     HostAtomics::load_acquire(progress.sequence) == sequence &&
                     (is_message(waits_in) || finished < sequence);
  std::string text;
  if (sequence < newest) {
    text = fmt::format("not entered call {}", newest);
    if (sequence > 0) text += fmt::format(" (newest: {})", sequence);
  } else if (sequence == 0) {
    text = "no collective yet";
  } else {
    const AnnounceLine& line = peer.announcements[sequence % kAnnounceDepth];
    text = fmt::format("{} call {}, {}, step {}", finished >= sequence ? "finished" : "in",
                       sequence, to_string(load_record(line.record)),
                       HostAtomics::load_acquire(peer.steps->step));
  }
  if (waits && is_message(waits_in)) text += ", in " + to_string(waits_in);
  if (waits)
    text += fmt::format(", waits for rank {}", HostAtomics::load_acquire(progress.waiting_for));
  return text;
}

// Who is behind a wait for rank `awaited`: it may be waiting itself, for another rank, and so on,
// to one that stands still or has not come.
int CommunicatorState::last_of_chain(int awaited) const {
  int last = awaited;
  for (int hops = 0; hops < host.size; ++hops) {
    const int local = last >= 0 ? local_of(last) : -1;
    if (local < 0 || local == host.rank || is_stopped(ranks[last].pid)) break;
    const ProgressLine& progress = *host.peers[local].progress;
    const std::uint64_t sequence = HostAtomics::load_acquire(host.peers[local].steps->sequence);
    const std::int32_t state = HostAtomics::load_acquire(progress.state);
    if (state != kWaiting && state != kWaitingTwice) break;
    if (HostAtomics::load_acquire(progress.sequence) != sequence) break;
    if (!is_message(load_record(progress.call)) &&
        HostAtomics::load_acquire(progress.finished) >= sequence)
      break;
    const int next = HostAtomics::load_acquire(progress.waiting_for);
    if (next < 0 || next == rank) break;
    last = next;
  }
  return last;
}

// Ranks that wait for each other in a circle, in different calls, will wait for ever: one is in a
// collective and one in a message, say. Each must have found its condition unmet twice after the
// circle was first seen, in one and the same wait: then none of them can have missed anything.
bool CommunicatorState::check_circle() {
  if (waited_ns < kCirclePatience) return false;
  std::vector<CircleMember>& found = circle_now;  // allocates nothing
  found.clear();
  int at = host.rank;
  do {
    const ProgressLine& progress = *host.peers[at].progress;
    const std::uint32_t waits = HostAtomics::load_acquire(progress.waits);
    const std::uint32_t checks = HostAtomics::load_acquire(progress.checks);
    const int next = HostAtomics::load_acquire(progress.waiting_for);
    if (HostAtomics::load_acquire(progress.state) != kWaiting || waits == 0 || next < 0) break;
    found.push_back({at, waits, checks});
    at = local_of(next);
  } while (at >= 0 && at != host.rank && found.size() < local_ranks.size());
  const auto same_wait = [](const CircleMember& a, const CircleMember& b) {
    return a.local == b.local && a.waits == b.waits;
  };
  if (at != host.rank || found.size() < 2) {
    circle.clear();
    return false;
  }
  if (!std::equal(found.begin(), found.end(), circle.begin(), circle.end(), same_wait)) {
    circle.swap(found);
    return false;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].checks - circle[i].checks < 2) return false;
  std::string text = "Mismatched calls: ranks wait for each other:";
  CallRecord theirs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const ProgressLine& progress = *host.peers[found[i].local].progress;
    const CallRecord call = load_record(progress.call);
    if (i == 1) theirs = call;
    text += fmt::format("{} rank {} called {} and waits for rank {}", i == 0 ? "" : ";",
                        local_ranks[found[i].local], to_string(call),
                        HostAtomics::load_acquire(progress.waiting_for));
  }
  Fault fault = make_fault(Status::kInvalidUsage, local_ranks[found[1].local],
                           text + "; all ranks must make the same calls in the same order");
  fault.other = theirs;
  raise(std::move(fault));
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
  for (int r = 0; r < host.size; ++r) text += "  " + describe_rank(r) + '\n';
  return text;
}

std::string CommunicatorState::describe_rank(int r) const {
  std::string text = rank_name(local_ranks[r]) + ": " + describe_call(host.peers[r], host.sequence);
  if (group && has_ended(group->processes[group->process_of_member[r]])) {
    text += ", ended";
  } else if (is_stopped(ranks[local_ranks[r]].pid)) {
    text += ", stopped";
  }
  return text;
}

}  // namespace rondo
