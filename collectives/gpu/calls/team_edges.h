// SPDX-License-Identifier: Apache-2.0
// TeamEdges: what the ranks of one GPU of a process (team/device_team.h) use of all other ranks:
// memory that kernels of both reach, agreement on calls, and the calls that others run for them.
//
// One implementation for each kind of neighbour: ProcessTeam, of the same host
// (processes/process_team.h), InternodeEdges, of several hosts (internode/internode_edges.h), and
// HostProxy, where no kernel may wait for any (staging/host_proxy.h).
// All of it is called by one thread at a time, except end(). Guarantees and cost: theirs.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/fault.h"
#include "collectives/gpu/calls/messages.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/memory/device_memory.h"
#include "collectives/gpu/memory/recall.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/planner/device_plan.h"

namespace rondo {
class RankState;
}

namespace rondo::gpu {

class TeamEdges {
 public:
  virtual ~TeamEdges() = default;

  virtual const DevicePlanFacts& facts() const = 0;    // for the planner
  virtual DeviceConnections* connections() const = 0;  // null: nothing runs over them
  virtual const MulticastMemory* multicast() const { return nullptr; }  // null: none
  virtual StreamOrder& order() = 0;                           // open; of all that the team enqueues
  virtual DeviceMemory* memory() { return nullptr; }          // null: nothing is freed
  virtual Recall* recall() { return nullptr; }                // null: no memory is lent
  virtual Status take_memory_again() { return ok_status(); }  // before calls
  virtual void add_memory(int rank, GpuMemoryUse* use) = 0;   // beside that of the connections
  // Ranks of the team, while their communicators live.
  virtual void join(RankState&) {}
  virtual void leave(RankState&) {}
  // The communicator has ended: ends all waits. Any thread.
  virtual void end() {}

  // A collective of this team's kernels, before its launch; captured: it runs in replays, where
  // what kernels report is compared.
  virtual Status announce(const CallRecord& record, bool captured, Mismatch* mismatch) = 0;
  // Such a launch, of this number of calls, follows at once.
  virtual void launching(std::size_t /*calls*/, bool /*captured*/) {}
  // A collective that the leader's process or the hosts run. Enqueues this team's part; buffers: by
  // place on the device.
  virtual Status run_elsewhere(const CallRecord& record, std::span<const Buffers> buffers,
                               GpuStream stream, bool captured, Mismatch* mismatch) = 0;
  // Predicted time of a collective that the hosts run, in nanoseconds; 0: none do.
  virtual double predicted_ns(const CallRecord&) const { return 0; }
  // A group's messages. The result enqueues them; without the lock of the team, if that blocks.
  using Enqueue = std::function<Status(GpuStream)>;
  virtual Result<Enqueue> prepare(std::span<const ProcessMessage> messages, bool captured,
                                  Mismatch* mismatch) = 0;
  // Whether that may include messages of a rank to itself.
  virtual bool does_own_messages() const = 0;
};

}  // namespace rondo::gpu
