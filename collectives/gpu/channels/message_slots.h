// MessageSlots: where messages between GPUs of one host lie on their way from one process to
// another: for every pair of ranks some memory for slots, by the pair's transport
// (edge_transport.h). Kernels of messages cut it into channels, whose counters lie beside it where
// it is the host's; streams into kMessageSlots (messages_by_streams.h).
//
// The receiver's process makes them when the first message of the pair is enqueued on either side,
// and the sender's asks for them (memory_exchange.h). So they need no third rank, and what is sent
// outlives its sender. Guarantees: both sides find the same transport by themselves; a question
// ends with its deadline. Cost: a pair's slots, together the staging of a rank divided by the
// ranks, at most 8 MiB of all its pairs on the host; a round trip between processes, once a pair.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "collectives/gpu/channels/edge_transport.h"
#include "collectives/gpu/droppable_memory.h"
#include "collectives/gpu/memory_exchange.h"
#include "collectives/gpu/reachability.h"

namespace rondo::gpu {

class MessageSlots {
 public:
  struct Slots {
    std::byte* at = nullptr;       // for kernels of this process
    std::byte* on_host = nullptr;  // where it is memory of the host
    std::uint64_t bytes = 0;
  };

  // devices: by rank; -1: in another process. by_kernels: each rank's messages are its own device's
  // business, else any device of its process may touch their slots.
  MessageSlots(MemoryExchange& exchange, DroppableMemory& droppable, const Reachability& around,
               std::vector<int> devices, int process, std::uint64_t staging_bytes, bool by_kernels);

  // Of messages between a rank of this process and one of another. One caller at a time.
  Result<Slots> between(int from, int to, const net::Deadline& deadline);
  // What a sender's process is told.
  Result<MemoryHandle> answer(const MemoryNote& asked);
  // Memory of the host that the rank, of this process, has for messages that it receives.
  std::uint64_t pinned_bytes(int rank) const;

 private:
  using Pair = std::pair<int, int>;  // receiver, sender
  const EdgeTransport& transport(int from, int to) const;
  std::uint64_t pair_bytes(const EdgeTransport& transport) const;
  // On the receiver's side, with the mutex; on the sender's.
  Result<const EdgeMemory*> make(int from, int to);
  Done connect(int from, int to, const net::Deadline& deadline);

  MemoryExchange& exchange_;
  DroppableMemory& droppable_;
  const Reachability& around_;
  const std::vector<int> devices_;
  const int process_;
  const std::uint64_t staging_bytes_;
  const bool by_kernels_;
  mutable std::mutex mutex_;             // of made_, at which the watch thread looks, too
  std::map<Pair, EdgeMemory> made_;      // of this process's receivers
  std::map<Pair, MappedMemory> mapped_;  // of its senders
  std::map<Pair, Slots> slots_;          // of both, once they are known
};

}  // namespace rondo::gpu
