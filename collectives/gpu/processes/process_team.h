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

#include "collectives/gpu/calls/team_edges.h"
#include "collectives/gpu/processes/call_announcements.h"
#include "collectives/gpu/processes/leader_calls.h"
#include "collectives/gpu/processes/process_context.h"
#include "collectives/gpu/processes/process_messages.h"
#include "collectives/gpu/processes/process_watch.h"

namespace rondo::gpu {

class ProcessTeam final : public TeamEdges {
 public:
  static Result<std::shared_ptr<ProcessTeam>> make(ProcessFacts facts,
                                                   std::unique_ptr<ControlSegment> segment,
                                                   TeamMemory shared,
                                                   std::vector<ProcessSockets> sockets);
  ~ProcessTeam() override;  // after finish() only
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  const DevicePlanFacts& facts() const override { return context_.facts.around.plan; }
  DeviceConnections* connections() const override { return context_.shared.connections.get(); }
  const MulticastMemory* multicast() const override { return context_.shared.multicast.get(); }
  StreamOrder& order() override { return context_.order; }
  DeviceMemory* memory() override { return context_.device_memory.get(); }
  Recall* recall() override { return context_.recall.get(); }
  Status take_memory_again() override {
    if (context_.recall->is_whole()) return ok_status();
    return context_.recall->take_again(context_.standing.deadline());
  }
  void add_memory(int rank, GpuMemoryUse* use) override {
    use->pinned += context_.slots->pinned_bytes(rank);
  }
  void join(RankState& rank) override { context_.standing.join(rank); }
  void leave(RankState& rank) override { context_.standing.leave(rank); }

  Status announce(const CallRecord& record, bool captured, Mismatch* mismatch) override {
    return announcements_.announce(record, captured, mismatch);
  }
  Status run_elsewhere(const CallRecord& record, std::span<const Buffers> buffers, GpuStream stream,
                       bool captured, Mismatch* mismatch) override {
    return leader_calls_.enqueue(record, buffers, stream, captured, mismatch);
  }
  Result<Enqueue> prepare(std::span<const ProcessMessage> messages, bool captured,
                          Mismatch* mismatch) override;
  bool does_own_messages() const override { return context_.messages_are_kernels(); }

 private:
  // The shared_ptr's deleter.
  static void finish(ProcessTeam* team);
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
