// SPDX-License-Identifier: Apache-2.0
// ProcessTeam: the ranks of a communicator on several GPUs of a host, or in several processes. Each
// GPU of a process counts as a process: it has a ProcessTeam, and its ranks are the local ones.
//
// If no two processes use the same GPU, collectives run over connections, small ones by LL push:
// the DeviceTeam of each process launches kernels for its own ranks. This team announces calls
// (call_announcements.h), owns the connections and watches the kernels (process_watch.h). Gather,
// scatter and all-to-all are messages (process_messages.h).
// All other calls, and all calls of processes that share a GPU, are led by the process of rank 0;
// then every GPU must reach that process's by P2P (leader_calls.h). Guarantees and cost: see these
// headers.
#pragma once

#include <memory>
#include <vector>

#include "collectives/gpu/processes/call_announcements.h"
#include "collectives/gpu/processes/leader_calls.h"
#include "collectives/gpu/processes/process_context.h"
#include "collectives/gpu/processes/process_messages.h"
#include "collectives/gpu/processes/process_watch.h"

namespace rondo::gpu {

class ProcessTeam {
 public:
  static Result<std::shared_ptr<ProcessTeam>> make(ProcessFacts facts,
                                                   std::unique_ptr<ControlSegment> segment,
                                                   TeamMemory shared,
                                                   std::vector<ProcessSockets> sockets);
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  // facts(): for the planner. connections(), multicast(): null if nothing runs over them.
  const DevicePlanFacts& facts() const { return context_.facts.around.plan; }
  DeviceConnections* connections() const { return context_.shared.connections.get(); }
  const MulticastMemory* multicast() const { return context_.shared.multicast.get(); }
  // Host memory for messages to a rank of this process.
  std::uint64_t pinned_bytes(int rank) const { return context_.slots->pinned_bytes(rank); }
  StreamOrder& order() { return context_.order; }
  Suspension& suspension() { return *context_.suspension; }

  TeamStanding& standing() { return context_.standing; }
  CallAnnouncements& announcements() { return announcements_; }
  LeaderCalls& leader_calls() { return leader_calls_; }
  ProcessMessages& messages() { return messages_; }

 private:
  // The shared_ptr's deleter.
  static void end(ProcessTeam* team);
  ~ProcessTeam();
  bool let_streams_end();
  ProcessTeam(ProcessFacts facts, std::unique_ptr<ControlSegment> segment, TeamMemory shared);
  Status open(std::vector<ProcessSockets> sockets);

  const std::uint32_t made_in_;  // fork_generation()
  ProcessContext context_;
  CallAnnouncements announcements_{context_};
  LeaderCalls leader_calls_{context_, announcements_};
  ProcessMessages messages_{context_};
  ProcessWatch watch_{context_, announcements_};
};

}  // namespace rondo::gpu
