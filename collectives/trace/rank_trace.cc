// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/rank_trace.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>

#include "base/printable.h"
#include "collectives/faults/peer_words.h"
#include "collectives/faults/rank_report.h"
#include "collectives/planner/planner.h"
#include "kernels/algorithms/table.h"
#include "kernels/host/call_recorder.h"
#include "transport/shm/host_segment.h"

namespace rondo::trace {
namespace {

using A = HostAtomics;

std::string text_of(const char* from, std::size_t size) {
  return printable_lines({from, strnlen(from, size)});
}

// True for a record that a rank can have written; anything else is damaged memory.
bool is_known(const CallTrace& call) {
  return call.number != 0 && call.call.collective <= Collective::kWaitSignal &&
         static_cast<int>(call.call.type) < kDataTypes && static_cast<int>(call.call.op) < kRedOps;
}

// finished: newest announced call that has completed. A brief record times no end within a burst.
TracedCall convert(const CallTrace& from, std::uint64_t finished, const TickClock& clock) {
  constexpr std::uint64_t kUnit = 1024;  // CallTrace
  TracedCall call;
  call.number = from.number;
  call.sequence = from.sequence;
  call.call = from.call;
  call.entered_ns = clock.at(from.entered);
  const bool is_announced = from.sequence != 0 && from.protocol != kEnqueuedProtocol;
  call.end_is_timed = from.ended != 0 || !is_announced || from.sequence > finished;
  if (!call.end_is_timed) call.ended_ns = clock.at(from.entered + host::kBurstTicks);
  if (from.ended != 0) call.ended_ns = std::max(call.entered_ns, clock.at(from.ended));
  call.waits = from.waits;
  if (from.waits > 0) {
    call.first_wait_ns = clock.long_for(from.first_wait * kUnit);
    call.longest_wait_ns = clock.long_for(from.longest_wait * kUnit);
    call.longest_wait_for = from.longest_wait_for;
  }
  if (from.algorithm < kAlgorithmCount) call.algorithm = kAlgorithmNames[from.algorithm];
  if (from.protocol <= static_cast<std::uint8_t>(Protocol::kRead))
    call.protocol = name(static_cast<Protocol>(from.protocol));
  if (from.protocol == kEnqueuedProtocol) call.protocol = "enqueued";
  call.result = from.result;
  return call;
}

void put_totals(const TraceRing& ring, const TickClock& clock, RankTrace* trace) {
  for (int which = 0; which < kCollectives; ++which)
    for (int size = 0; size < kTraceSizes; ++size) {
      const TraceTotal& total = ring.totals[which][size];
      const std::uint64_t calls = A::load_relaxed(total.calls);
      if (calls == 0) continue;
      trace->totals.push_back({static_cast<Collective>(which), size, calls,
                               A::load_relaxed(total.bytes),
                               clock.long_for(A::load_relaxed(total.spent_ticks))});
    }
  trace->all_waits = A::load_relaxed(ring.waits);
  trace->waited_ns = clock.long_for(A::load_relaxed(ring.waited_ticks));
}

void put_network(const NetworkCounters& counters, RankTrace* trace) {
  trace->sent_bytes = A::load_relaxed(counters.sent_bytes);
  trace->received_bytes = A::load_relaxed(counters.received_bytes);
  trace->lost_peers = A::load_relaxed(counters.lost_peers);
  trace->lost_rails = A::load_relaxed(counters.lost_rails);
  trace->resent_parts = A::load_relaxed(counters.resent_parts);
}

void put_rails(std::span<const RailCounters> counters, RankTrace* trace) {
  for (const RailCounters& counter : counters) {
    const std::string port = text_of(counter.port, sizeof(counter.port));
    if (port.empty()) continue;
    auto of = std::find_if(trace->rails.begin(), trace->rails.end(),
                           [&](const RailTotal& rail) { return rail.port == port; });
    if (of == trace->rails.end()) of = trace->rails.insert(of, {port});
    of->sent_bytes += A::load_relaxed(counter.sent_bytes);
    of->received_bytes += A::load_relaxed(counter.received_bytes);
    of->busy_ns += static_cast<std::int64_t>(A::load_relaxed(counter.busy_ns));
  }
}

void put_memory(const shm::ActivityLine::Memory& memory, RankTrace* trace) {
  const std::uint64_t record = trace->calls.empty() ? 0 : sizeof(TraceRing);
  trace->own_bytes = A::load_relaxed(memory.shared_bytes) + record;
  trace->pinned_bytes = A::load_relaxed(memory.pinned_bytes);
  trace->device_bytes = A::load_relaxed(memory.device_bytes);
}

// 0: none of its ranks has made a call.
std::uint64_t communicator_of(const shm::SegmentView& segment) {
  for (int r = 0; r < segment.ranks(); ++r)
    if (const auto id = A::load_acquire(segment.port(r).trace->origin.communicator); id != 0)
      return id;
  return 0;
}

std::uint64_t memory_of_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

}  // namespace

// Times since the first call need no rate if they are short: both readings are of one moment then.
TickClock::TickClock(const TraceOrigin& origin, const TickReading& now)
    : ticks_(now.ticks), base_ns_(now.monotonic_ns - origin.offset_ns), ns_per_tick_(1) {
  const auto ticks = static_cast<double>(now.ticks - origin.ticks);
  const auto ns = static_cast<double>(now.monotonic_ns - origin.monotonic_ns);
  if (now.ticks > origin.ticks && ns > 0) ns_per_tick_ = ns / ticks;
}

std::int64_t TickClock::at(std::uint64_t ticks) const {
  const auto since = static_cast<double>(static_cast<std::int64_t>(ticks - ticks_));
  return base_ns_ + std::llround(since * ns_per_tick_);
}

std::int64_t TickClock::long_for(std::uint64_t ticks) const {
  return std::llround(static_cast<double>(ticks) * ns_per_tick_);
}

std::optional<RankTrace> trace_of(const PeerPort& words, const std::string& host,
                                  const TickReading& now, std::uint64_t communicator) {
  if (A::load_acquire(words.identity->pid) == 0) return std::nullopt;
  const TraceRing& ring = *words.trace;
  const bool has_calls = A::load_acquire(ring.origin.communicator) != 0;
  RankTrace trace;
  trace.communicator = has_calls ? ring.origin.communicator : communicator;
  if (trace.communicator == 0) return std::nullopt;
  trace.name = text_of(words.identity->name, sizeof(words.identity->name));
  trace.size = words.identity->size;
  trace.rank = words.identity->rank;
  trace.pid = words.identity->pid;
  trace.host = host;
  trace.wall_ns = ring.origin.wall_ns - ring.origin.monotonic_ns + ring.origin.offset_ns;
  trace.clock_error_ns = ring.origin.offset_error_ns;
  const RankReport report = report_of(words, trace.rank);
  trace.entered = report.sequence;
  if (report.waits_now()) trace.waits_for = report.waiting_for;
  if (A::load_acquire(words.fault->state) != 0) {
    trace.fault = text_of(words.fault->text, sizeof(words.fault->text));
    trace.culprit = words.fault->culprit;
  }
  if (A::load_acquire(words.progress->state) == kLeft) {
    trace.state = "left";
  } else if (kill(trace.pid, 0) != 0 && errno == ESRCH) {
    trace.state = "ended";
  }
  if (!has_calls) return trace;
  const TickClock clock(ring.origin, now);
  const std::uint64_t finished = A::load_acquire(words.progress->finished);
  for (const TraceLine& line : ring.lines)
    if (const CallTrace call = host::load_trace(line); is_known(call))
      trace.calls.push_back(convert(call, finished, clock));
  put_totals(ring, clock, &trace);
  trace.read_ns = clock.at(now.ticks);
  std::sort(trace.calls.begin(), trace.calls.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  for (std::size_t i = 1; i < trace.calls.size(); ++i)
    if (TracedCall& call = trace.calls[i - 1]; !call.end_is_timed)
      call.ended_ns = std::clamp(trace.calls[i].entered_ns, call.entered_ns, call.ended_ns);
  for (const TracedCall& call : trace.calls) trace.entered = std::max(trace.entered, call.sequence);
  return trace;
}

Result<std::vector<RankTrace>> traces_of_process(int pid) {
  if (pid < 1) return fail(StatusCode::kInvalidArgument, "{} is not a process id", pid);
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  std::vector<RankTrace> traces;
  std::vector<int> processes{pid};
  std::set<std::pair<std::uint64_t, int>> seen;  // communicator, rank
  bool any = false;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const auto paths = shm::segments_of(processes[i]);
    if (!paths.ok() && i == 0) return paths.error();
    if (!paths.ok()) continue;  // it has ended
    for (const std::string& path : *paths) {
      const auto segment = shm::SegmentView::open(path);
      if (!segment.ok() && segment.code() == StatusCode::kInvalidUsage) return segment.error();
      if (!segment.ok()) continue;  // it has just been closed
      any = true;
      const TickReading now = read_ticks();
      const std::uint64_t communicator = communicator_of(*segment);
      for (int r = 0; r < segment->ranks(); ++r) {
        auto trace = trace_of(segment->port(r), host, now, communicator);
        if (!trace || !seen.emplace(trace->communicator, trace->rank).second) continue;
        if (std::find(processes.begin(), processes.end(), trace->pid) == processes.end())
          processes.push_back(trace->pid);
        trace->shared_bytes = memory_of_file(path);
        const shm::ActivityLine& activity = segment->activity(r);
        put_network(activity.network, &*trace);
        put_rails(activity.rails, &*trace);
        put_memory(activity.memory, &*trace);
        traces.push_back(std::move(*trace));
      }
    }
  }
  if (!any)
    return fail(StatusCode::kInvalidUsage,
                "process {} has no Rondo communicator: it does not use Rondo, or is between two "
                "communicators",
                pid);
  if (traces.empty())
    return fail(
        StatusCode::kInvalidUsage,
        "no rank of process {} has a record of calls: wait for its first call, or start the job "
        "without RONDO_RECORD=0",
        pid);
  return traces;
}

}  // namespace rondo::trace
