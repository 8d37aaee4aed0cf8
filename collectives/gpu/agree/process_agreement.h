// SPDX-License-Identifier: Apache-2.0
// ProcessAgreement: combines the results of a step that each process of a host has done by itself,
// so that all processes continue or none does.
//
// Collective over the processes, by the sockets between them and the leader (process 0). A process
// writes its error into its note on the segment. Guarantees: all processes get the same result;
// every wait ends with the deadline. Cost: two messages per process.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

// The processes of a host, while they meet.
struct ProcessPeers {
  ControlSegment* segment = nullptr;
  std::span<const ProcessSockets> sockets;  // by process; at least the leader's
  int process = 0;                          // 0 is the leader
  std::vector<int> process_of;              // by rank; -1: on another host
  net::Deadline deadline;

  bool leads() const { return process == 0; }
  int processes() const { return static_cast<int>(sockets.size()); }
  int first_rank() const;  // of this process
  const net::Socket& to_leader() const { return sockets[0].own; }
  const net::Socket& of_process(int p) const { return sockets[static_cast<std::size_t>(p)].theirs; }
  MemoryNote& note() const { return segment->offer(first_rank()); }  // of this process
};

// The maximum over all processes.
Result<int> highest_of_all(const ProcessPeers& peers, int own);

// Failure of a process: its first rank, and why.
struct Refusal {
  int rank = 0;
  Error why;
};
// The lowest rank's refusal; nullopt if all succeeded. Error: a process did not answer.
Result<std::optional<Refusal>> refusal_of_any(const ProcessPeers& peers, const Status& own);
// The lowest rank's refusal that is on the segment by now.
std::optional<Refusal> refusal_noted(const ControlSegment& segment);

}  // namespace rondo::gpu
