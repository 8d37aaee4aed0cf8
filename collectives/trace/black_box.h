// SPDX-License-Identifier: Apache-2.0
// BlackBox: the record of a rank's calls in its own process: it starts the recorder, and writes
// files into the folder of RONDO_TRACE: at a fault, at the signal of RONDO_TRACE_SIGNAL, and when
// the communicator or the process ends.
//
// Guarantees: a folder that cannot be written costs one line (base/log.h) and never fails a
// call. At a fault the rank also writes the box of each rank of this host that has ended, or that
// the fault names: these may never write their own. Cost: without RONDO_TRACE nothing but the
// record itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/rank/rank_context.h"
#include "collectives/trace/host_clocks.h"
#include "collectives/trace/rank_trace.h"

namespace rondo::trace {

enum class Recording {
  kNone,
  kBrief,  // see host::CallRecorder
  kWhole,
};
// Values of RONDO_RECORD: 0, 1, brief.
Result<Recording> parse_recording(std::string_view text);

class BlackBox : RankPart {
 public:
  explicit BlackBox(RankContext& context) : RankPart(context) {}
  ~BlackBox();
  BlackBox(const BlackBox&) = delete;
  BlackBox& operator=(const BlackBox&) = delete;

  // By RONDO_RECORD of this process; RONDO_TRACE and RONDO_METRICS need a whole record.
  static Recording asked_for();
  // How often init compares the clocks of hosts for this record: once if it is brief.
  static std::uint8_t clock_rounds();

  // Call once the host view has its peers. communicator: equal on its ranks, different for others,
  // not 0.
  void open(std::uint64_t communicator, const HostOffset& offset);
  // Writes this rank's box. Any thread.
  void write(std::string_view reason) const;

 private:
  void write_at_fault(const Fault& fault) const;
  void write_local(int local, std::string_view reason, const Fault* fault) const;

  std::string folder_;  // "": writes no files
  std::uint64_t communicator_ = 0;
  std::uint32_t made_in_ = 0;  // fork_generation()
};

// on_trace_signal(): runs a function on a thread of its own after the process gets a signal.
//
// Guarantees: each signal is followed by a run that begins after it; signals that come during a run
// share the next one. The handler itself only posts a semaphore; system calls that it interrupts
// are restarted. A signal that the program handles or ignores itself is refused. Cost: one thread
// that sleeps. Call it once in a process.
//
// signal: "USR2", "SIGUSR2" or "12". The function is called until the process ends.
Status on_trace_signal(const std::string& signal, std::function<void()> run);

}  // namespace rondo::trace
