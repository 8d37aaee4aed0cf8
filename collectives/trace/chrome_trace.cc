// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/chrome_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace rondo::trace {
namespace {

class ChromeTrace {
 public:
  explicit ChromeTrace(std::span<const TracedComm> comms) {
    begin_ns_ = std::numeric_limits<std::int64_t>::max();
    for (const TracedComm& comm : comms)
      for (const RankTrace& rank : comm.ranks)
        for (const TracedCall& call : rank.calls) {
          begin_ns_ = std::min(begin_ns_, call.entered_ns);
          end_ns_ = std::max({end_ns_, call.entered_ns, call.ended_ns});
        }
  }

  // number: of the communicator, from 0. It is the thread of its slices, below the rank's process.
  void add(const TracedComm& comm, int number, std::int64_t arrows_from_ns) {
    for (const RankTrace& rank : comm.ranks) add_rank(rank, comm, number);
    for (const CallSkew& skew : skews_of(comm))
      if (skew.entered.size() > 1 && skew.late_ns >= arrows_from_ns) add_arrows(skew, comm, number);
  }

  Json document(std::int64_t wall_ns) && {
    Json made{{"displayTimeUnit", "ns"}, {"baseTimeNanoseconds", wall_ns + begin_ns_}};
    made["traceEvents"] = std::move(events_);
    return made;
  }

 private:
  double us(std::int64_t ns) const { return static_cast<double>(ns - begin_ns_) / 1e3; }

  void add_name(const char* what, int pid, int tid, std::string text) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", pid},
                       {"tid", tid},
                       {"args", Json{{"name", std::move(text)}}}});
  }

  // A process of the trace is one of the job: a rank of the largest communicator.
  int track_of(const RankTrace& rank) {
    return tracks_.try_emplace({rank.host, rank.pid}, rank.rank).first->second;
  }

  void add_rank(const RankTrace& rank, const TracedComm& comm, int number) {
    // Ranks that are threads of one process have tracks of their own in each communicator.
    const bool alone =
        std::count_if(comm.ranks.begin(), comm.ranks.end(), [&](const RankTrace& one) {
          return one.pid == rank.pid && one.host == rank.host;
        }) == 1;
    const int pid = pids_[{number, rank.rank}] = alone ? track_of(rank) : rank.rank;
    add_name("process_name", pid, number,
             fmt::format("rank {} ({}, pid {})", pid, rank.host, rank.pid));
    add_name("thread_name", pid, number,
             rank.name.empty() ? fmt::format("communicator 0x{:x}", rank.communicator)
                               : "communicator " + rank.name);
    events_.push_back({{"ph", "M"},
                       {"name", "process_sort_index"},
                       {"pid", pid},
                       {"tid", number},
                       {"args", Json{{"sort_index", pid}}}});
    std::vector<const TracedCall*> calls;
    for (const TracedCall& call : rank.calls) calls.push_back(&call);
    std::stable_sort(calls.begin(), calls.end(),
                     [](const auto* a, const auto* b) { return a->entered_ns < b->entered_ns; });
    std::int64_t until = begin_ns_;
    for (const TracedCall* call : calls) {
      const std::int64_t end = end_of(*call);
      // Slices of a track must nest; messages with tags may overlap.
      const bool overlaps = call->entered_ns < until && end > until;
      overlaps ? add_overlapping(*call, pid, number) : add_call(*call, pid, number);
      until = std::max(until, end);
    }
  }

  std::int64_t end_of(const TracedCall& call) const {
    return call.ended() ? call.ended_ns : end_ns_;
  }

  void add_overlapping(const TracedCall& call, int pid, int tid) {
    const int id = ++overlapping_;
    for (const bool start : {true, false})
      events_.push_back({{"ph", start ? "b" : "e"},
                         {"name", name(call.call.collective)},
                         {"cat", "call"},
                         {"id", id},
                         {"pid", pid},
                         {"tid", tid},
                         {"ts", us(start ? call.entered_ns : end_of(call))},
                         {"args", arguments_of(call)}});
  }

  Json arguments_of(const TracedCall& call) const {
    Json args{{"call", call.sequence},        {"count", elements_of(call.call)},
              {"type", name(call.call.type)}, {"bytes", call.bytes()},
              {"algorithm", call.algorithm},  {"protocol", call.protocol}};
    if (call.call.root >= 0) args["root_or_peer"] = call.call.root;
    if (!call.ended()) args["not_ended"] = true;
    if (!call.end_is_timed) args["end_is_timed"] = false;
    if (call.result != 0) args["result"] = call.result;
    if (call.waits > 0) {
      args["longest_wait_us"] = static_cast<double>(call.longest_wait_ns) / 1e3;
      args["longest_wait_for"] = call.longest_wait_for;
    }
    return args;
  }

  void add_call(const TracedCall& call, int pid, int tid) {
    events_.push_back({{"ph", "X"},
                       {"name", name(call.call.collective)},
                       {"cat", "call"},
                       {"pid", pid},
                       {"tid", tid},
                       {"ts", us(call.entered_ns)},
                       {"dur", static_cast<double>(end_of(call) - call.entered_ns) / 1e3},
                       {"args", arguments_of(call)}});
    if (call.waits != 1 || !call.ended()) return;  // of several waits, only the first one's time
    const std::int64_t from = call.entered_ns + call.first_wait_ns;
    const std::int64_t to = std::min(from + call.longest_wait_ns, call.ended_ns);
    if (to <= from) return;
    events_.push_back({{"ph", "X"},
                       {"name", call.longest_wait_for < 0
                                    ? std::string("wait for the network")
                                    : fmt::format("wait for rank {}", call.longest_wait_for)},
                       {"cat", "wait"},
                       {"pid", pid},
                       {"tid", tid},
                       {"ts", us(from)},
                       {"dur", static_cast<double>(to - from) / 1e3}});
  }

  // From the entry of the late rank to each rank that was in the call then.
  void add_arrows(const CallSkew& skew, const TracedComm& comm, int number) {
    for (const RankTrace& rank : comm.ranks) {
      if (rank.rank == skew.late_rank) continue;
      const auto call = std::find_if(rank.calls.begin(), rank.calls.end(), [&](const auto& one) {
        return one.sequence == skew.sequence;
      });
      if (call == rank.calls.end() || (call->ended() && call->ended_ns <= skew.entered_ns))
        continue;
      const std::int64_t to = std::max(skew.entered_ns, call->entered_ns);
      const int id = ++arrows_;
      for (const bool start : {true, false}) {
        Json arrow{{"ph", start ? "s" : "f"},
                   {"id", id},
                   {"cat", "late"},
                   {"name", "came late"},
                   {"pid", pids_[{number, start ? skew.late_rank : rank.rank}]},
                   {"tid", number},
                   {"ts", us(start ? skew.entered_ns : to)}};
        if (!start) arrow["bp"] = "e";
        events_.push_back(std::move(arrow));
      }
    }
  }

  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  int arrows_ = 0, overlapping_ = 0;
  std::map<std::pair<std::string, int>, int> tracks_;
  std::map<std::pair<int, int>, int> pids_;  // by number of the communicator and rank
  Json events_ = Json::array();
};

}  // namespace

Json chrome_trace(std::span<const TracedComm> comms, std::int64_t arrows_from_ns) {
  ChromeTrace made(comms);
  for (std::size_t i = 0; i < comms.size(); ++i)
    made.add(comms[i], static_cast<int>(i), arrows_from_ns);
  return std::move(made).document(comms.empty() ? 0 : comms[0].first().wall_ns);
}

}  // namespace rondo::trace
