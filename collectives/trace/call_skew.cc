// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/call_skew.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>

#include "base/printable.h"

namespace rondo::trace {
namespace {

struct Entry {
  int rank;
  const TracedCall* call;
  std::int64_t read_ns;
};

std::string time_text(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns >= 1'000'000'000) return fmt::format("{:.2f} s", value / 1e9);
  if (ns >= 1'000'000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.1f} us", value / 1e3);
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

CallSkew skew_of(std::uint64_t sequence, std::vector<Entry> entries) {
  assert(sequence > 0 && !entries.empty());
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.call->entered_ns < b.call->entered_ns;
  });
  const auto lowest =
      std::min_element(entries.begin(), entries.end(),
                       [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
  CallSkew skew;
  skew.sequence = sequence;
  skew.call = lowest->call->call;
  std::int64_t ended = -1;
  for (const Entry& entry : entries) {
    skew.entered.push_back(entry.rank);
    if (!entry.call->ended()) {
      skew.open.push_back(entry.rank);
      skew.runs |= entry.read_ns > 0 && entry.read_ns - entry.call->entered_ns < kFresh;
    }
    if (entry.call->end_is_timed) ended = std::max(ended, entry.call->ended_ns);
    if (!(entry.call->call == skew.call) && skew.mismatch.empty())
      skew.mismatch = fmt::format("rank {} made {}, rank {} made {}", lowest->rank,
                                  to_string(skew.call), entry.rank, to_string(entry.call->call));
  }
  std::sort(skew.open.begin(), skew.open.end());
  skew.late_rank = entries.back().rank;
  skew.entered_ns = entries.back().call->entered_ns;
  if (entries.size() > 1) {
    const std::size_t others = entries.size() - 1;
    skew.late_ns = skew.entered_ns - entries[(others - 1) / 2].call->entered_ns;
  }
  const bool is_known = skew.open.empty() && ended >= 0;
  skew.moving_ns = is_known ? std::max<std::int64_t>(0, ended - skew.entered_ns) : -1;
  return skew;
}

// Ranks whose traces are there and that have not entered the call.
std::vector<int> missing_of(const TracedComm& comm, const CallSkew& skew) {
  std::vector<int> missing;
  for (const RankTrace& rank : comm.ranks)
    if (rank.entered < skew.sequence) missing.push_back(rank.rank);
  return missing;
}

// The newest call that some rank has entered and not ended.
std::string open_call_text(const TracedComm& comm, const std::vector<CallSkew>& skews) {
  const auto open = std::find_if(skews.begin(), skews.end(), [](const CallSkew& skew) {
    return !skew.open.empty() && !skew.runs;
  });
  if (open == skews.end()) return "";
  const std::vector<int> missing = missing_of(comm, *open);
  std::string text = fmt::format("call {}, {}, has not ended: {} in it", open->sequence,
                                 to_string(open->call), ranks_text(open->open));
  if (!missing.empty()) text += fmt::format("; {} not entered", ranks_text(missing));
  if (!open->mismatch.empty()) text += "; " + open->mismatch;
  return text + '\n';
}

struct RankSums {
  int last = 0;  // calls to which it came last, later than kLate
  std::int64_t late_ns = 0, max_late_ns = 0;
};

constexpr std::int64_t kLate = 10'000;  // ns; less is noise of caches and cores

std::string rank_lines(const TracedComm& comm, const std::vector<CallSkew>& skews) {
  std::map<int, RankSums> sums;
  for (const CallSkew& skew : skews) {
    if (skew.entered.size() < 2 || skew.late_ns < kLate) continue;
    RankSums& of = sums[skew.late_rank];
    ++of.last;
    of.late_ns += skew.late_ns;
    of.max_late_ns = std::max(of.max_late_ns, skew.late_ns);
  }
  std::string text = fmt::format("  {:<6} {:>8} {:>9} {:>11} {:>11} {:>12}  {}\n", "rank", "calls",
                                 "came last", "late, all", "late, max", "longest wait", "for");
  for (const RankTrace& rank : comm.ranks) {
    const TracedCall* longest = nullptr;
    for (const TracedCall& call : rank.calls)
      if (call.waits > 0 && (longest == nullptr || call.longest_wait_ns > longest->longest_wait_ns))
        longest = &call;
    const RankSums& of = sums[rank.rank];
    text += fmt::format("  {:<6} {:>8} {:>9} {:>11} {:>11} {:>12}  {}\n", rank.rank,
                        rank.calls.size(), of.last, of.last == 0 ? "-" : time_text(of.late_ns),
                        of.last == 0 ? "-" : time_text(of.max_late_ns),
                        longest == nullptr ? "-" : time_text(longest->longest_wait_ns),
                        longest == nullptr || longest->longest_wait_for < 0
                            ? "-"
                            : fmt::format("rank {}", longest->longest_wait_for));
  }
  return text;
}

}  // namespace

std::int64_t TracedComm::clock_error_ns() const {
  std::int64_t error = 0;
  for (const RankTrace& rank : ranks) error = std::max(error, rank.clock_error_ns);
  return error;
}

std::vector<TracedComm> comms_of(std::vector<RankTrace> traces) {
  std::map<std::uint64_t, std::map<int, RankTrace>> by_id;
  for (RankTrace& trace : traces) {
    auto& ranks = by_id[trace.communicator];
    const auto newest = [](const RankTrace& of) {
      return of.calls.empty() ? std::uint64_t{0} : of.calls.back().number;
    };
    const auto [at, added] = ranks.try_emplace(trace.rank, trace);
    if (!added && newest(trace) > newest(at->second)) at->second = std::move(trace);
  }
  std::vector<TracedComm> comms;
  for (auto& [id, ranks] : by_id) {
    TracedComm& comm = comms.emplace_back();
    for (auto& [rank, trace] : ranks) comm.ranks.push_back(std::move(trace));
  }
  std::stable_sort(comms.begin(), comms.end(), [](const TracedComm& a, const TracedComm& b) {
    return a.first().size > b.first().size;
  });
  return comms;
}

std::vector<CallSkew> skews_of(const TracedComm& comm) {
  std::map<std::uint64_t, std::vector<Entry>> entries;
  for (const RankTrace& rank : comm.ranks)
    for (const TracedCall& call : rank.calls)
      if (call.sequence > 0) entries[call.sequence].push_back({rank.rank, &call, rank.read_ns});
  std::vector<CallSkew> skews;
  for (auto& [sequence, of_call] : entries) skews.push_back(skew_of(sequence, std::move(of_call)));
  return skews;
}

std::string text_of(const CallSkew& skew) {
  std::string text = fmt::format("rank {} came {} late to call {}, {}", skew.late_rank,
                                 time_text(skew.late_ns), skew.sequence, to_string(skew.call));
  if (!skew.open.empty()) text += "; it has not ended";
  if (skew.moving_ns >= 0) text += "; moving took " + time_text(skew.moving_ns);
  return text;
}

std::string summary_of(const TracedComm& comm, int lines) {
  const std::vector<CallSkew> skews = skews_of(comm);
  const RankTrace& first = comm.first();
  std::string text = fmt::format("communicator 0x{:x}{}{}: {}, {} here", first.communicator,
                                 first.name.empty() ? "" : " ", first.name,
                                 counted(first.size, "rank"), comm.ranks.size());
  if (!skews.empty())
    text += fmt::format(", calls {} to {}", skews.front().sequence, skews.back().sequence);
  if (const std::int64_t error = comm.clock_error_ns(); error > 0)
    text += fmt::format("; clocks of hosts agree within {}", time_text(error));
  text += '\n';
  for (const RankTrace& rank : comm.ranks)
    if (!rank.fault.empty()) {
      text += fmt::format("fault: {}\n", rank.fault);
      break;
    }
  text += open_call_text(comm, skews);
  std::vector<CallSkew> late;
  std::copy_if(skews.begin(), skews.end(), std::back_inserter(late), [](const CallSkew& skew) {
    return skew.entered.size() > 1 && skew.late_ns >= kLate;
  });
  const std::size_t shown = std::min(late.size(), static_cast<std::size_t>(std::max(lines, 0)));
  std::partial_sort(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(shown), late.end(),
                    [](const CallSkew& a, const CallSkew& b) { return a.late_ns > b.late_ns; });
  for (std::size_t i = 0; i < shown; ++i) text += text_of(late[i]) + '\n';
  return text + rank_lines(comm, skews);
}

}  // namespace rondo::trace
