// ProcessAgreement: what the processes of a host make together of a step that each has taken by
// itself, so that all go on or none does.
//
// By all processes at once, over the sockets between them and the leader's (process 0). What went
// wrong in one stands in its note on the segment. Guarantees: all hear the same; every wait ends
// with the deadline. Cost: two messages a process.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/control_segment.h"
#include "collectives/gpu/process_meeting.h"
#include "transport/socket/deadline.h"

namespace rondo::gpu {

// What processes are while they meet.
struct ProcessPeers {
  ControlSegment* segment = nullptr;
  std::span<const ProcessSockets> sockets;  // by process: to the leader at least
  int process = 0;                          // 0 leads
  std::vector<int> process_of;              // by rank; -1: on another host
  net::Deadline deadline;

  bool leads() const { return process == 0; }
  int processes() const { return static_cast<int>(sockets.size()); }
  int first_rank() const;  // of this process
  const net::Socket& to_leader() const { return sockets[0].own; }
  const net::Socket& of_process(int p) const { return sockets[static_cast<std::size_t>(p)].theirs; }
  MemoryNote& note() const { return segment->offer(first_rank()); }  // of this process
};

// The highest of all.
Result<int> highest_of_all(const ProcessPeers& peers, int own);

// Of a process that could not: its first rank, and why.
struct Refusal {
  int rank = 0;
  Error why;
};
// The lowest rank's; nothing where all could. An error: somebody did not answer.
Result<std::optional<Refusal>> refusal_of_any(const ProcessPeers& peers, const Status& own);
// What stands on the segment by now.
std::optional<Refusal> refusal_noted(const ControlSegment& segment);

}  // namespace rondo::gpu
