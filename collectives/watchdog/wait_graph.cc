// SPDX-License-Identifier: Apache-2.0
#include "collectives/watchdog/wait_graph.h"

#include <algorithm>

#include "base/seconds.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/faults/rank_report.h"
#include "collectives/faults/standstill.h"

namespace rondo {
namespace {

// True if no rank can complete the collective before all others entered it.
bool needs_all(Collective which) {
  return which == Collective::kAllReduce || which == Collective::kAllGather ||
         which == Collective::kReduceScatter || which == Collective::kAllToAll ||
         which == Collective::kBarrier || which == Collective::kAllToAllV ||
         which == Collective::kAllGatherV || is_ordered(which);
}

// True if the rank has checked its condition twice since then and it was still false. Reports of
// other hosts may arrive late, after newer ones.
bool advanced(std::uint32_t before, std::uint32_t now) {
  return static_cast<std::int32_t>(now - before) >= 2;
}

}  // namespace

// State of a rank: of this host, its current state; of another host, its last report.
std::optional<RankReport> WaitGraph::report_on(int global) const {
  if (const int local = members_.local_of(global); local >= 0) {
    RankReport report = report_of(host_.peers[local], global);
    report.condition = condition_of(members_, host_, local);
    return report;
  }
  const StatusExchange::Known* known = statuses_.of(global);
  return known == nullptr ? std::nullopt : std::optional(known->report);
}

int WaitGraph::last_of_chain(int awaited) const {
  int last = awaited;
  for (int hops = 0; hops < members_.size && last >= 0 && last != members_.rank; ++hops) {
    const std::optional<RankReport> report = report_on(last);
    if (!report || report->condition != RankReport::kRunning || !report->waits_now()) break;
    if (report->waiting_for < 0 || report->waiting_for == members_.rank) break;
    last = report->waiting_for;
  }
  return last;
}

// Follows the waits from this rank; false if they do not lead back to it. `found` holds what the
// members currently publish.
bool WaitGraph::follow_cycle(std::vector<Member>& found) const {
  found.clear();
  int at = members_.rank;
  do {
    const int local = members_.local_of(at);
    const StatusExchange::Known* known = local < 0 ? statuses_.of(at) : nullptr;
    if (local < 0 && known == nullptr) return false;
    const RankReport report = local >= 0 ? report_of(host_.peers[local], at) : known->report;
    const int next = report.waiting_for;
    if (report.state != kWaiting || report.waits == 0 || next < 0) return false;
    const bool crosses = members_.shape.host_of(at) != members_.shape.host_of(next);
    // Reports of two ranks of the same other host must be from the same time.
    if (local < 0 && !crosses) {
      const StatusExchange::Known* other = statuses_.of(next);
      if (other == nullptr || known->reporter != other->reporter || known->number != other->number)
        return false;
    }
    found.push_back({at, next, report.waits, report.checks, crosses ? report.quiet : 0, crosses,
                     report.waits_in});
    at = next;
  } while (at != members_.rank && found.size() < static_cast<std::size_t>(members_.size));
  const std::size_t members = found.size();
  bool closed = at == members_.rank && members >= 2;
  for (std::size_t i = 0; closed && i < members; ++i)
    closed = !found[i].crosses || found[i].quiet == found[(i + 1) % members].waits;
  return closed;
}

bool WaitGraph::check(std::int64_t waited_ns) {
  return waited_ns >= kCycleWait && (check_cycle() || check_outsiders());
}

// Ranks that wait for each other in a cycle, in different calls, are deadlocked (one is in a
// collective and one in a message, for example). Each must have found its condition false twice
// after all were seen in these waits; then none can have missed what another did before its wait. A
// rank that waits for a rank of another host must also know that nothing was in flight between them
// during these waits.
bool WaitGraph::check_cycle() {
  std::vector<Member>& found = cycle_now_;
  if (!follow_cycle(found)) {
    cycle_.clear();
    return false;
  }
  const auto same_wait = [](const Member& a, const Member& b) {
    return a.rank == b.rank && a.waits == b.waits;
  };
  if (!std::equal(found.begin(), found.end(), cycle_.begin(), cycle_.end(), same_wait)) {
    // The members were read one after the other: only now it is known that all are in these waits.
    cycle_.swap(found);
    for (Member& member : cycle_)
      if (const int local = members_.local_of(member.rank); local >= 0)
        member.checks = HostAtomics::load_acquire(host_.peers[local].progress->checks);
    return false;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!advanced(cycle_[i].checks, found[i].checks)) return false;
  std::vector<fault_texts::MadeCall> cycle;
  for (const Member& member : found)
    cycle.push_back({member.rank, to_string(member.call), member.waiting_for});
  Fault fault =
      faults_.make(StatusCode::kInvalidUsage, found[1].rank, fault_texts::wait_cycle(cycle));
  fault.other = found[1].call;
  faults_.raise(std::move(fault));
  return true;
}

// A rank is deadlocked if it waits for this one in a message and has not entered this rank's
// collective, which cannot complete without it. It must have found its condition false twice after
// it was first seen; if it is on another host, no message may have been in flight to it. Unlike a
// cycle, this is certain whatever this rank waits for, in any number of parts.
bool WaitGraph::check_outsiders() {
  if (!needs_all(call_.record.collective)) return false;
  outsiders_.resize(members_.size);
  for (int peer = 0; peer < members_.size; ++peer) {
    const int local = members_.local_of(peer);
    const StatusExchange::Known* known = local < 0 ? statuses_.of(peer) : nullptr;
    if (peer == members_.rank || (local < 0 && known == nullptr)) continue;
    const RankReport report = local >= 0 ? report_of(host_.peers[local], peer) : known->report;
    const bool quiet = local >= 0 || (known->quiet_waits == report.waits &&
                                      known->quiet_sequence == host_.sequence);
    const bool outside = report.state == kWaiting && report.waits > 0 && quiet &&
                         report.waiting_for == members_.rank && report.sequence < host_.sequence &&
                         is_message(report.waits_in);
    Outsider& seen = outsiders_[peer];
    if (!outside || seen.waits != report.waits || seen.sequence != host_.sequence) {
      seen = outside ? Outsider{report.waits, report.checks, host_.sequence} : Outsider{};
      continue;
    }
    if (!advanced(seen.checks, report.checks)) continue;
    Fault fault =
        faults_.make(StatusCode::kInvalidUsage, peer,
                     fault_texts::waits_outside(
                         {peer, to_string(report.waits_in)},
                         {members_.rank,
                          fmt::format("{} as call {}", to_string(call_.record), host_.sequence)}));
    fault.other = report.waits_in;
    faults_.raise(std::move(fault));
    return true;
  }
  return false;
}

std::string WaitGraph::describe_ranks() const {
  std::string text;
  for (int r = 0; r < members_.size; ++r) text += "  " + describe_rank(r) + '\n';
  return text;
}

std::string WaitGraph::describe_rank(int global) const {
  constexpr double kOld = 2;  // seconds
  const std::string who = members_.name_of(global) + ": ";
  const std::optional<RankReport> report = report_on(global);
  if (!report)
    return who + "no report: no rank of its host is inside a call, or they make no progress";
  std::string what = who + describe(*report, host_.sequence);
  if (members_.local_of(global) >= 0) return what;
  const double age = static_cast<double>(now_ns() - statuses_.of(global)->received_ns) / 1e9;
  return age < kOld ? what : what + fmt::format(" (reported {:.0f} s ago)", age);
}

}  // namespace rondo
