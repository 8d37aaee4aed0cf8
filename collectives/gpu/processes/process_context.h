// SPDX-License-Identifier: Apache-2.0
// ProcessContext: the state that the parts of a ProcessTeam share: where its ranks are, the segment
// shared by the processes, the leader's memory, connections, the words of streams and their order.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/message_slots.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/memory/leader_memory.h"
#include "collectives/gpu/memory/recall.h"
#include "collectives/gpu/memory/shared_blocks.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "transport/socket/socket.h"

namespace rondo {
class RankState;
}

namespace rondo::gpu {

// TeamStanding: whether a team of processes may continue: the communicators of its ranks in this
// process, while they live, and whether the team has been released. A released team waits for
// nothing and launches nothing.
//
// Thread-safe. Cost: a mutex, and that of the hooks.
class TeamStanding {
 public:
  void join(RankState& rank);
  void leave(RankState& rank);  // before it is destroyed

  Status check();            // an error once a communicator has ended or has a fault
  net::Deadline deadline();  // a communicator's timeout, while check() is ok
  double device_seconds();   // limit of a device's waits; 0: none

  bool is_released() const { return released_; }
  void release() { released_ = true; }
  // Raises the fault at the first communicator and releases the team.
  void blame(Fault fault);
  void blame(StatusCode status, int culprit, std::string text);
  bool has_ended(int rank);  // whether its process has ended
  std::string name_of(int rank);
  // For status queries, of all its ranks here: RankContext::show_device_wait().
  void show(std::uint64_t begun, const std::optional<LongWait>& wait);

 private:
  std::mutex mutex_;
  std::vector<RankState*> ranks_;
  std::atomic<bool> released_{false};
};

struct ProcessFacts {
  int device = 0;                                 // of its ranks
  bool mixes_graphs = true, takes_turns = false;  // StreamOrder::Options
  int max_ctas = 1;
  int process = 0;          // this process; 0 is the leader
  std::vector<int> beside;  // numbers of the other GPUs of this program
  GpuPlan around;
};

// Memory that kernels of several processes share.
struct TeamMemory {
  std::unique_ptr<DeviceConnections> connections;  // null: no call runs over connections
  std::unique_ptr<MulticastMemory> multicast;      // null: none
};

struct ProcessContext {
  ProcessContext(ProcessFacts agreed, std::unique_ptr<ControlSegment> made, TeamMemory memory);
  ProcessContext(const ProcessContext&) = delete;
  ProcessContext& operator=(const ProcessContext&) = delete;
  Status open(std::vector<ProcessSockets> sockets);
  void forget();  // in a forked child: everything is the parent's

  int ranks() const { return static_cast<int>(facts.around.process_of.size()); }
  bool leads() const { return facts.process == 0; }
  bool is_local(int rank) const { return facts.around.process_of[rank] == facts.process; }

  // True if no GPU is used by two processes.
  bool messages_are_kernels() const { return shared.connections != nullptr; }

  // On a stream: write() stores a word of the segment, await() waits for it.
  Status write(GpuStream stream, std::uint32_t& word, std::uint32_t value) const;
  Status await(GpuStream stream, std::uint32_t& word, std::uint32_t value, GpuWait how) const;
  // Answers another process's memory request. On the watch thread.
  void answer(int process);
  std::optional<Result<MemoryHandle>> memory_for(MemoryNote& asked, const MemoryHandle& with);
  Result<MemoryHandle> lazy_block_of(int rank, std::uint32_t what);  // asks the rank's process
  bool blames_an_ended_rank();  // no kernel runs that would notice
  // The calls that run now, for SharedBlocks.
  SharedBlocks::Calls running_calls();
  ProcessFacts facts;
  std::vector<int> local;  // ranks of this process
  std::shared_ptr<ControlSegment> segment;
  std::unique_ptr<MemoryExchange> exchange;
  std::unique_ptr<DeviceMemory> device_memory;
  std::shared_ptr<Recall> recall;
  std::unique_ptr<SharedBlocks> blocks;
  std::unique_ptr<LeaderMemory> memory;
  std::unique_ptr<MessageSlots> slots;
  TeamMemory shared;
  StreamOrder order;  // of everything that this process enqueues for the team
  TeamStanding standing;
};

}  // namespace rondo::gpu
