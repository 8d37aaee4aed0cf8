// SPDX-License-Identifier: Apache-2.0
// RankTrace: the newest calls of one rank, read from its black box (TraceRing), in nanoseconds of
// one clock for all ranks of a communicator.
//
// Guarantees: reading writes nothing and neither stops nor slows the rank; a call that its rank is
// writing at this moment is left out. Times of ranks of one host have the same clock. Those of
// other hosts are shifted by the offset that init measured (host_clocks.h); clock_error_ns bounds
// the error. Cost: copies 256 KiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/ticks.h"
#include "base/types.h"
#include "transport/connection.h"

namespace rondo::trace {

struct TracedCall {
  std::uint64_t number = 0;    // of the record, from 1
  std::uint64_t sequence = 0;  // number of the call in the communicator; 0: a message
  CallRecord call;             // messages: root is the peer
  std::int64_t entered_ns = 0;
  std::int64_t ended_ns = -1;          // -1: not ended
  bool end_is_timed = true;            // else it is a bound: the next entry, or kBurstTicks
  std::int64_t first_wait_ns = -1;     // after entered_ns; -1: no wait of about 100 us or more
  std::int64_t longest_wait_ns = 0;    // its duration
  std::int32_t longest_wait_for = -1;  // rank, or -1
  int waits = 0;
  std::string algorithm, protocol;  // "": none
  int result = 0;                   // StatusCode, once it has ended

  bool ended() const { return ended_ns >= 0; }
  std::uint64_t bytes() const { return elements_of(call) * size_of(call.type); }
};

// All calls of one kind and size class (trace_size_of) since the communicator was made.
struct CallTotal {
  Collective collective = Collective::kNone;
  int size = 0;
  std::uint64_t calls = 0, bytes = 0;  // entered
  std::int64_t spent_ns = 0;           // in calls that have ended
};

// What a rank has exchanged with other hosts over one of its ports; see RailCounters.
struct RailTotal {
  std::string port;
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::int64_t busy_ns = 0;  // 0: unknown
};

struct RankTrace {
  std::uint64_t communicator = 0;  // equal on its ranks, different for others
  std::string name;                // of the communicator; may be empty
  int size = 0;
  int rank = -1;
  int pid = 0;
  std::string host;
  std::string state = "running";  // or left, ended
  int waits_for = -1;             // now: a rank, or -1
  std::string fault;              // "": none
  int culprit = -1;               // rank that the fault names, or -1
  std::int64_t wall_ns = 0;       // add it to a time for nanoseconds since 1970
  std::int64_t clock_error_ns = 0;
  std::uint64_t entered = 0;      // newest call of the communicator that it has entered
  std::vector<TracedCall> calls;  // oldest first
  // Not in files:
  std::vector<CallTotal> totals;                                   // only kinds that it has called
  std::uint64_t all_waits = 0;                                     // of about 100 us or more
  std::int64_t waited_ns = 0;                                      // in these
  std::int64_t read_ns = 0;                                        // when this was read
  std::uint64_t sent_bytes = 0, received_bytes = 0;                // to and from other hosts
  std::uint64_t lost_peers = 0, lost_rails = 0, resent_parts = 0;  // see NetworkCounters
  std::vector<RailTotal> rails;                                    // by port
  std::uint64_t shared_bytes = 0;  // memory that the communicator's ranks on this host share
  std::uint64_t own_bytes = 0;     // the part of it that this rank uses
  std::uint64_t pinned_bytes = 0, device_bytes = 0;  // of a rank on a GPU
};

// The trace of a rank that publishes `words`. nullopt: it has not joined. host: the name of this
// host. now: read by the caller on this host. communicator: its number, which a rank publishes with
// its first call; 0: unknown, then a rank without calls has no trace.
std::optional<RankTrace> trace_of(const PeerPort& words, const std::string& host,
                                  const TickReading& now, std::uint64_t communicator);

// Traces of all ranks on this host in communicators of the process, and in other communicators of
// those ranks' processes. Errors: those of `rondo ps`, or no rank has made a call.
Result<std::vector<RankTrace>> traces_of_process(int pid);

// Converts ticks of a ring to nanoseconds of the communicator's clock.
class TickClock {
 public:
  TickClock(const TraceOrigin& origin, const TickReading& now);
  std::int64_t at(std::uint64_t ticks) const;
  std::int64_t long_for(std::uint64_t ticks) const;  // duration

 private:
  std::uint64_t ticks_;
  std::int64_t base_ns_;
  double ns_per_tick_;
};

}  // namespace rondo::trace
