// What ranks tell of themselves while they wait: who waits for whom, in which call; circles of
// waits.
#include <algorithm>
#include <cstring>

#include "base/seconds.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"
#include "collectives/watchdog/rank_report.h"

namespace rondo {
namespace {

// Ranks that wait for each other are looked for only in waits that last.
constexpr std::int64_t kCirclePatience = 50'000'000;

// Whether no rank can complete the collective before every other one has entered it.
bool needs_all(Collective which) {
  return which == Collective::kAllReduce || which == Collective::kAllGather ||
         which == Collective::kReduceScatter || which == Collective::kAllToAll ||
         which == Collective::kBarrier || which == Collective::kAllToAllV ||
         which == Collective::kAllGatherV;
}

// Whether a rank has found its condition unmet twice since. Reports of other hosts may come late,
// behind newer ones.
bool advanced(std::uint32_t before, std::uint32_t now) {
  return static_cast<std::int32_t>(now - before) >= 2;
}

}  // namespace

// What is known of a rank: of this host, now; of another one, what was last heard of it.
std::optional<RankReport> CommunicatorState::report_on(int global) const {
  if (const int local = local_of(global); local >= 0) {
    RankReport report = report_of(host.peers[local], global);
    if (group && has_ended(group->processes[group->process_of_member[local]])) {
      report.condition = RankReport::kEnded;
    } else if (stands_still(local)) {
      report.condition = RankReport::kStopped;
    }
    return report;
  }
  if (!elsewhere || !elsewhere->known[global].heard) return std::nullopt;
  return elsewhere->known[global].report;
}

// Who is behind a wait for rank `awaited`: it may be waiting itself, for another rank, and so on,
// to one that stands still or has not come.
int CommunicatorState::last_of_chain(int awaited) const {
  int last = awaited;
  for (int hops = 0; hops < size && last >= 0 && last != rank; ++hops) {
    const std::optional<RankReport> report = report_on(last);
    if (!report || report->condition != RankReport::kRunning || !report->waits_now()) break;
    if (report->waiting_for < 0 || report->waiting_for == rank) break;
    last = report->waiting_for;
  }
  return last;
}

// Who waits for whom, beginning with this rank: false where that does not lead back to it.
// `found` is what members show now.
bool CommunicatorState::follow_circle(std::vector<CircleMember>& found) {
  found.clear();
  int at = rank;
  do {
    const int local = local_of(at);
    if (local < 0 && !(elsewhere && elsewhere->known[at].heard)) return false;
    const RankReport report =
        local >= 0 ? report_of(host.peers[local], at) : elsewhere->known[at].report;
    const int next = report.waiting_for;
    if (report.state != kWaiting || report.waits == 0 || next < 0) return false;
    const bool crosses = shape.host_of(at) != shape.host_of(next);
    // What is told of two ranks of another host must have been seen at one time.
    if (local < 0 && !crosses &&
        (elsewhere->known[at].teller != elsewhere->known[next].teller ||
         elsewhere->known[at].number != elsewhere->known[next].number))
      return false;
    found.push_back({at, next, report.waits, report.checks, crosses ? report.quiet : 0, crosses,
                     report.waits_in});
    at = next;
  } while (at != rank && found.size() < static_cast<std::size_t>(size));
  const std::size_t members = found.size();
  bool closed = at == rank && members >= 2;
  for (std::size_t i = 0; closed && i < members; ++i)
    closed = !found[i].crosses || found[i].quiet == found[(i + 1) % members].waits;
  return closed;
}

// Ranks that wait for each other in a circle, in different calls, will wait for ever: one is in a
// collective and one in a message, say. Each must have found its condition unmet twice after all
// were seen in these waits: then none of them can have missed what another did before its wait.
// Where one waits for a rank of another host, it must also know that nothing was on its way between
// them while they were in these waits.
bool CommunicatorState::check_circle() {
  if (waited_ns < kCirclePatience) return false;
  std::vector<CircleMember>& found = circle_now;  // allocates nothing but in the first long wait
  if (!follow_circle(found)) {
    circle.clear();
    return false;
  }
  const auto same_wait = [](const CircleMember& a, const CircleMember& b) {
    return a.rank == b.rank && a.waits == b.waits;
  };
  if (!std::equal(found.begin(), found.end(), circle.begin(), circle.end(), same_wait)) {
    // Seen one after the other: only now is it known that all are in these waits.
    circle.swap(found);
    for (CircleMember& member : circle)
      if (const int local = local_of(member.rank); local >= 0)
        member.checks = HostAtomics::load_acquire(host.peers[local].progress->checks);
    return false;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!advanced(circle[i].checks, found[i].checks)) return false;
  std::vector<fault_texts::MadeCall> cycle;
  for (const CircleMember& member : found)
    cycle.push_back({member.rank, to_string(member.call), member.waiting_for});
  Fault fault = make_fault(Status::kInvalidUsage, found[1].rank, fault_texts::wait_cycle(cycle));
  fault.other = found[1].call;
  raise(std::move(fault));
  return true;
}

// A rank that waits for this one in a message, and has not entered the collective in which this one
// is and which cannot end without it, will wait for ever. It must have found its condition unmet
// twice after it was first seen; where it is on another host, nothing may have been on its way to
// it. Unlike a circle this is certain whatever this rank itself waits for, in how many parts.
bool CommunicatorState::check_outsiders() {
  if (waited_ns < kCirclePatience || !needs_all(current.collective)) return false;
  outsiders.resize(size);
  for (int peer = 0; peer < size; ++peer) {
    const int local = local_of(peer);
    if (peer == rank || (local < 0 && !(elsewhere && elsewhere->known[peer].heard))) continue;
    const RankReport report =
        local >= 0 ? report_of(host.peers[local], peer) : elsewhere->known[peer].report;
    const bool quiet = local >= 0 || (elsewhere->known[peer].quiet_waits == report.waits &&
                                      elsewhere->known[peer].quiet_sequence == host.sequence);
    const bool outside = report.state == kWaiting && report.waits > 0 && quiet &&
                         report.waiting_for == rank && report.sequence < host.sequence &&
                         is_message(report.waits_in);
    Outsider& seen = outsiders[peer];
    if (!outside || seen.waits != report.waits || seen.sequence != host.sequence) {
      seen = outside ? Outsider{report.waits, report.checks, host.sequence} : Outsider{};
      continue;
    }
    if (!advanced(seen.checks, report.checks)) continue;
    Fault fault =
        make_fault(Status::kInvalidUsage, peer,
                   fault_texts::waits_outside(
                       {peer, to_string(report.waits_in)},
                       {rank, fmt::format("{} as call {}", to_string(current), host.sequence)}));
    fault.other = report.waits_in;
    raise(std::move(fault));
    return true;
  }
  return false;
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
  for (int r = 0; r < size; ++r) text += "  " + describe_rank(r) + '\n';
  return text;
}

std::string CommunicatorState::describe_rank(int global) const {
  constexpr double kOld = 2;  // seconds
  const std::string who = rank_name(global) + ": ";
  const std::optional<RankReport> report = report_on(global);
  if (!report)
    return who + "nothing heard: no rank of its host is inside a call, or they stand still";
  std::string what = who + describe(*report, host.sequence);
  if (local_of(global) >= 0) return what;
  const double age = static_cast<double>(now_ns() - elsewhere->known[global].heard_ns) / 1e9;
  return age < kOld ? what : what + fmt::format(" (heard {:.0f} s ago)", age);
}

}  // namespace rondo
