// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/trace_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "base/text_file.h"
#include "base/types.h"

namespace rondo::trace {
namespace {

constexpr std::string_view kFormat = "rondo-rank-trace-1";
constexpr std::size_t kMaxBytes = 16 << 20;

Json number_or_null(std::int64_t value) { return value < 0 ? Json(nullptr) : Json(value); }

Json json_of(const TracedCall& call) {
  return {{"number", call.number},
          {"call", call.sequence},
          {"collective", name(call.call.collective)},
          {"count", elements_of(call.call)},
          {"type", name(call.call.type)},
          {"op", reduces(call.call.collective) && !call.call.is_foreign() ? Json(name(call.call.op))
                                                                          : Json(nullptr)},
          {"root_or_peer", call.call.root},
          {"bytes", call.bytes()},
          {"fused", call.call.fused()},
          {"algorithm", call.algorithm},
          {"protocol", call.protocol},
          {"entered_ns", call.entered_ns},
          {"ended_ns", number_or_null(call.ended_ns)},
          {"end_is_timed", call.end_is_timed},
          {"waits", call.waits},
          {"first_wait_ns", number_or_null(call.first_wait_ns)},
          {"longest_wait_ns", call.longest_wait_ns},
          {"longest_wait_for", call.longest_wait_for},
          {"result", call.ended() ? Json(call.result) : Json(nullptr)}};
}

// The value of an enumeration by its name.
template <class Value>
Value value_of(const Json& object, std::string_view key, int count) {
  const std::string& text = object.at(key).string();
  for (int i = 0; i < count; ++i)
    if (text == name(static_cast<Value>(i))) return static_cast<Value>(i);
  throw JsonError(fmt::format("'{}' is no {}", printable(text), key));
}

// Integers in a file of 16 MiB are exact up to 2^53; times of a host that has run for 100 days are.
std::int64_t integer(const Json& object, std::string_view key, double low = -9e15) {
  const double value = object.at(key).number();
  if (!(value >= low && value <= 9e15))
    throw JsonError(fmt::format("{} is {}, not in {}..9e15", key, value, low));
  return static_cast<std::int64_t>(value);
}

bool is_null(const Json& object, std::string_view key) { return object.at(key).text(0) == "null"; }

TracedCall call_of(const Json& from, int ranks) {
  TracedCall call;
  call.number = static_cast<std::uint64_t>(integer(from, "number", 1));
  call.sequence = static_cast<std::uint64_t>(integer(from, "call", 0));
  call.call.collective = value_of<Collective>(from, "collective", kCollectives);
  call.call.type = value_of<DataType>(from, "type", kDataTypes);
  if (!is_null(from, "op")) call.call.op = value_of<RedOp>(from, "op", kRedOps);
  call.call.count = static_cast<std::uint64_t>(integer(from, "count", 0));
  if (from.at("fused").text(0) == "true") call.call.count = fused_count(call.call.count, 0);
  call.call.root = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(integer(from, "root_or_peer", -1), -1, ranks - 1));
  call.algorithm = printable(from.at("algorithm").string());
  call.protocol = printable(from.at("protocol").string());
  call.entered_ns = integer(from, "entered_ns");
  if (!is_null(from, "ended_ns")) call.ended_ns = integer(from, "ended_ns", 0);
  const auto& keys = from.keys();  // files of earlier versions lack this one
  if (std::find(keys.begin(), keys.end(), "end_is_timed") != keys.end())
    call.end_is_timed = from.at("end_is_timed").text(0) == "true";
  call.waits = static_cast<int>(std::min<std::int64_t>(integer(from, "waits", 0), 255));
  if (!is_null(from, "first_wait_ns")) call.first_wait_ns = integer(from, "first_wait_ns", 0);
  call.longest_wait_ns = integer(from, "longest_wait_ns", 0);
  call.longest_wait_for = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(integer(from, "longest_wait_for", -1), -1, ranks - 1));
  if (!is_null(from, "result")) call.result = static_cast<int>(integer(from, "result", 0) % 256);
  return call;
}

RankTrace trace_of_json(const Json& from) {
  if (from.at("format").string() != kFormat)
    throw JsonError(
        fmt::format("its format is '{}', not {}", printable(from.at("format").string()), kFormat));
  constexpr std::int64_t kMaxRanks = 1 << 20;
  RankTrace trace;
  const Json& communicator = from.at("communicator");
  trace.communicator = std::strtoull(communicator.at("id").string().c_str(), nullptr, 16);
  trace.name = printable(communicator.at("name").string());
  trace.size = static_cast<int>(std::min(integer(communicator, "size", 1), kMaxRanks));
  trace.rank = static_cast<int>(std::min(integer(from, "rank", 0), kMaxRanks));
  if (trace.rank >= trace.size)
    throw JsonError(fmt::format("rank {} of {} ranks", trace.rank, trace.size));
  trace.pid = static_cast<int>(std::min<std::int64_t>(integer(from, "pid", 0), 1 << 30));
  trace.host = printable(from.at("host").string());
  trace.state = printable(from.at("state").string());
  trace.waits_for = static_cast<int>(
      std::clamp<std::int64_t>(integer(from, "waits_for", -1), -1, trace.size - 1));
  trace.fault = printable_lines(from.at("fault").string());
  trace.culprit =
      static_cast<int>(std::clamp<std::int64_t>(integer(from, "culprit", -1), -1, trace.size - 1));
  trace.wall_ns = static_cast<std::int64_t>(from.at("clock").at("wall_ns").number());
  trace.clock_error_ns = integer(from.at("clock"), "error_ns", 0);
  trace.entered = static_cast<std::uint64_t>(integer(from, "entered_call", 0));
  const Json::Array& calls = from.at("calls").elements();
  if (calls.size() > kTracedCalls)
    throw JsonError(fmt::format("{} calls, at most {}", calls.size(), kTracedCalls));
  for (const Json& call : calls) trace.calls.push_back(call_of(call, trace.size));
  return trace;
}

}  // namespace

Json to_json(const RankTrace& trace, std::string_view reason) {
  Json calls = Json::array();
  for (const TracedCall& call : trace.calls) calls.push_back(json_of(call));
  return {{"format", kFormat},
          {"communicator", Json{{"id", fmt::format("{:016x}", trace.communicator)},
                                {"name", trace.name},
                                {"size", trace.size}}},
          {"rank", trace.rank},
          {"pid", trace.pid},
          {"host", trace.host},
          {"reason", reason},
          {"state", trace.state},
          {"waits_for", trace.waits_for},
          {"fault", trace.fault},
          {"culprit", trace.culprit},
          {"clock", Json{{"wall_ns", trace.wall_ns}, {"error_ns", trace.clock_error_ns}}},
          {"entered_call", trace.entered},
          {"calls", std::move(calls)}};
}

Result<RankTrace> parse_trace(const std::string& text, const std::string& path) {
  try {
    return trace_of_json(Json::parse(text));
  } catch (const JsonError& error) {
    return fail(StatusCode::kInvalidArgument, "'{}' is not the trace of a rank: {}", path,
                error.what());
  }
}

std::string file_name(const RankTrace& trace) {
  return fmt::format("rondo-{:016x}-rank{}.json", trace.communicator, trace.rank);
}

Result<std::string> write_trace(const std::string& folder, const RankTrace& trace,
                                std::string_view reason) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return fail_errno(errno, "cannot make the folder '{}'", folder);
  std::string path = folder + '/' + file_name(trace);
  RONDO_CHECK_OK(write_output(path, to_json(trace, reason).text(0) + '\n'));
  return path;
}

Result<std::vector<RankTrace>> read_traces(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string file = at->path().filename();
    if (file.starts_with("rondo-") && file.ends_with(".json")) paths.push_back(at->path());
  }
  if (error)
    return fail(StatusCode::kInvalidArgument, "cannot read the folder '{}': {}", folder,
                error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<RankTrace> traces;
  for (const std::string& path : paths) {
    RONDO_TRY(const std::string text, read_text_file("trace of a rank", path, kMaxBytes));
    RONDO_TRY(RankTrace trace, parse_trace(text, path));
    traces.push_back(std::move(trace));
  }
  if (traces.empty())
    return fail(StatusCode::kInvalidArgument,
                "the folder '{}' has no file rondo-*-rank*.json: set RONDO_TRACE={} for the job",
                folder, folder);
  return traces;
}

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
