// SPDX-License-Identifier: Apache-2.0
// MessageSlots: the memory that messages between GPUs pass through: slots for every pair of ranks,
// by the pair's transport (edge_transport.h). Kernels of messages divide it into channels, whose
// counters are beside it if it is host memory; streams divide it into kMessageSlots
// (process_messages.h).
//
// P2P: the receiver's process makes the slots when the first message of the pair is enqueued on
// either side, and the sender's requests them (process_meeting.h). So no third rank is needed, and
// sent data outlives its sender. Host: they are in the connections' host memory, from init on,
// because pinning may wait for streams that wait for a message. By network each side makes its own,
// without a request; the words are before the slots, in pinned memory, and the slots are with them
// or in device memory that adapters reach (direct_memory.h). Guarantees: both sides find the same
// transport by themselves; a request ends with its deadline. Cost: a pair's slots, together the
// staging of a rank divided by the number of ranks, at most 8 MiB for all its pairs on the host; a
// round trip between processes of a host, once per pair.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/plan/connection_layout.h"
#include "collectives/gpu/plan/edge_transport.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "kernels/cuda/message_args.h"
#include "transport/proxy/direct_memory.h"

namespace rondo::gpu {

class DeviceConnections;
class DeviceMemory;

class MessageSlots {
 public:
  struct Slots {
    std::byte* at = nullptr;       // for kernels of this process
    std::byte* on_host = nullptr;  // null: not host memory
    std::uint64_t bytes = 0;       // words before the slots included
    bool over_network = false;     // only this side's; the other host has its own
    DirectPiece direct = {};       // holds the slots, if they are not behind the words
  };

  // Processes of other hosts have number -1. device: of this process's ranks; only a rank's own
  // device accesses the slots of its messages.
  // connections: with the slots between ranks of this host that do not reach each other; null: all
  // do.
  MessageSlots(MemoryExchange& exchange, DeviceMemory& memory, const DeviceConnections* connections,
               const GpuPlan& around, int device, int process, std::uint64_t staging_bytes);

  // For messages between a rank of this process, which sends or receives, and another one. One
  // caller at a time. arena: for slots to another host; null: they are pinned.
  Result<Slots> between(int from, int to, const net::Deadline& deadline,
                        DirectArena* arena = nullptr);
  // The answer to a sender's process.
  Result<MemoryHandle> answer(const MemoryNote& asked);
  // Host memory that the rank, of this process, holds for messages that it receives, and for those
  // that it sends to other hosts.
  std::uint64_t pinned_bytes(int rank) const;

 private:
  using Pair = std::pair<int, int>;  // receiver, sender
  const EdgeTransport& transport(int from, int to) const;
  std::uint64_t pair_bytes(const EdgeTransport& transport) const;
  int owner(int from, int to) const;  // rank for which this process makes the pair's memory
  // make(): on the side that makes them, with the mutex. connect(): on the sender's side.
  struct Made {
    EdgeMemory memory;
    std::uint64_t bytes = 0;  // of it
    DirectPiece direct = {};
  };
  Result<const Made*> make(int from, int to, DirectArena* arena = nullptr);
  Status connect(int from, int to, const net::Deadline& deadline);
  Slots on_host(int from, int to) const;

  MemoryExchange& exchange_;
  DeviceMemory& memory_;
  const DeviceConnections* const connections_;
  const GpuPlan& around_;
  const int device_, process_;
  const std::uint64_t staging_bytes_;
  mutable std::mutex mutex_;             // guards made_, which the watch thread also reads
  std::map<Pair, Made> made_;            // for owners in this process
  std::map<Pair, MappedMemory> mapped_;  // for senders in this process
  std::map<Pair, Slots> slots_;          // known ones of both
};

}  // namespace rondo::gpu
