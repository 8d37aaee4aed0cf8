// MessageSlots: where messages between GPUs lie on their way from one rank to another: for every
// pair of ranks some memory for slots, by the pair's transport (edge_transport.h). Kernels of
// messages cut it into channels, whose counters lie beside it where it is the host's; streams into
// kMessageSlots (messages_by_streams.h).
//
// The receiver's process makes them when the first message of the pair is enqueued on either side,
// and the sender's asks for them (memory_exchange.h). So they need no third rank, and what is sent
// outlives its sender. Between hosts each side makes its own, and nobody is asked; there the words
// lie before the slots, in pinned memory, and the slots with them or in device memory that adapters
// reach (direct_memory.h). Guarantees: both
// sides find the same transport by themselves; a question ends with its deadline. Cost: a pair's
// slots, together the staging of a rank divided by the ranks, at most 8 MiB of all its pairs on the
// host; a round trip between processes of a host, once a pair.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "collectives/gpu/channels/edge_transport.h"
#include "collectives/gpu/droppable_memory.h"
#include "collectives/gpu/memory_exchange.h"
#include "collectives/gpu/reachability.h"
#include "kernels/cuda/message_args.h"
#include "transport/proxy/direct_memory.h"

namespace rondo::gpu {

class MessageSlots {
 public:
  struct Slots {
    std::byte* at = nullptr;       // for kernels of this process
    std::byte* on_host = nullptr;  // where it is memory of the host
    std::uint64_t bytes = 0;       // words before the slots included
    bool over_network = false;     // this side's; the other host has its own
    DirectPiece direct = {};       // where the slots are, if not behind the words
  };

  // devices: by rank; -1: in another process. Processes of other hosts have number -1.
  // by_kernels: each rank's messages are its own device's business, else any device of its process
  // may touch their slots.
  MessageSlots(MemoryExchange& exchange, DroppableMemory& droppable, const Reachability& around,
               std::vector<int> devices, int process, std::uint64_t staging_bytes, bool by_kernels);

  // What lies before slots in memory of the host: tails and heads of all channels, and, to another
  // host, how many bytes each slot holds.
  static constexpr std::uint64_t kTailsBytes = cuda::kMessageChannels * cuda::kMessageCounterBytes;
  static constexpr std::uint64_t kCountersBytes = 2 * kTailsBytes;
  static constexpr std::uint64_t kUsedBytes =
      cuda::kMessageChannels * cuda::kMessageChannelSlots * sizeof(std::uint64_t);

  // Of messages between a rank of this process, which sends or receives, and another one. One
  // caller at a time. arena: for slots to another host; null: they are pinned.
  Result<Slots> between(int from, int to, bool sends, const net::Deadline& deadline,
                        DirectArena* arena = nullptr);
  // What a sender's process is told.
  Result<MemoryHandle> answer(const MemoryNote& asked);
  // Memory of the host that the rank, of this process, has for messages that it receives, and for
  // those that it sends to other hosts.
  std::uint64_t pinned_bytes(int rank) const;

 private:
  using Pair = std::pair<int, int>;  // receiver, sender
  const EdgeTransport& transport(int from, int to) const;
  std::uint64_t pair_bytes(const EdgeTransport& transport) const;
  int owner(int from, int to) const;  // for whom this process makes the pair's memory
  // On the side that makes them, with the mutex; on the sender's.
  struct Made {
    EdgeMemory memory;
    std::uint64_t bytes = 0;  // of it
    DirectPiece direct = {};
  };
  Result<const Made*> make(int from, int to, DirectArena* arena = nullptr);
  Status connect(int from, int to, const net::Deadline& deadline);

  MemoryExchange& exchange_;
  DroppableMemory& droppable_;
  const Reachability& around_;
  const std::vector<int> devices_;
  const int process_;
  const std::uint64_t staging_bytes_;
  const bool by_kernels_;
  mutable std::mutex mutex_;             // of made_, at which the watch thread looks, too
  std::map<Pair, Made> made_;            // for this process's owners
  std::map<Pair, MappedMemory> mapped_;  // of its senders
  // Of both, once they are known: by pair, and whether they are the sender's.
  std::map<std::pair<Pair, bool>, Slots> slots_;
};

}  // namespace rondo::gpu
