// SPDX-License-Identifier: Apache-2.0
// InternodeMemory: memory that the ranks of one process share in a communicator of several hosts:
// connections between ranks of their host, and the slots of messages, which are made with a pair's
// first one.
//
// Other processes of the host request slots by sockets; any rank's proxy answers (serve()), so an
// answer never depends on what a program does. Guarantees: thread-safe; a request ends with its
// deadline. Cost: that of MessageSlots; the segment by which processes of the host have met; a
// check of the sockets per millisecond.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/gpu/agree/memory_exchange.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/message_slots.h"
#include "collectives/gpu/memory/droppable_memory.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

class InternodeMemory {
 public:
  struct Parts {
    std::unique_ptr<DeviceConnections> connections;
    ProcessMeeting meeting;       // all processes of the host
    int process = 0;              // this process's number among these
    std::vector<int> process_of;  // by rank; -1: on another host
    std::vector<int> devices;     // by rank; -1: in another process
    P2pReach near;
    std::uint64_t staging_bytes = 0;  // per rank, for messages; equal on all ranks
  };
  explicit InternodeMemory(Parts parts);
  InternodeMemory(const InternodeMemory&) = delete;
  InternodeMemory& operator=(const InternodeMemory&) = delete;

  DeviceConnections& connections() { return *connections_; }
  const DeviceConnections& connections() const { return *connections_; }
  // Slots of messages between a rank of this process, which sends or receives, and another one.
  // arena: see MessageSlots::between().
  Result<MessageSlots::Slots> slots(int from, int to, bool sends, const net::Deadline& deadline,
                                    DirectArena* arena);
  // Answers other processes of the host; true if one has asked.
  bool serve();
  GpuMemoryUse memory(int rank) const;

 private:
  Result<MemoryHandle> answer(const MemoryNote& asked);

  std::unique_ptr<DeviceConnections> connections_;
  std::unique_ptr<ControlSegment> segment_;
  const int processes_;
  GpuPlan around_;
  DroppableMemory memory_;  // never dropped
  std::unique_ptr<MemoryExchange> exchange_;
  std::unique_ptr<MessageSlots> slots_;
  std::mutex mutex_;             // guards slots()
  std::mutex serving_;           // guards serve()
  std::vector<pollfd> sockets_;  // of other processes
  std::int64_t served_at_ns_ = 0;
};

}  // namespace rondo::gpu
