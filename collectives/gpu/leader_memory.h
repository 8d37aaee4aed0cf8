// LeaderMemory: the memory by which the leader's process does calls for others: staging, on its
// device, and memory of other ranks (ncclMemAlloc'd or registered) that it maps at its first use,
// so that the leader's kernels read and write it in place.
//
// Both come by questions to the leader (memory_exchange.h). Guarantees: every question ends with
// its deadline. Cost: a round trip between processes for the staging and per block, once.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/gpu/droppable_memory.h"
#include "collectives/gpu/memory_exchange.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class LeaderMemory final : public MemoryRegistry::Listener {
 public:
  static constexpr std::uint64_t kScalarBytes = 256;

  // devices: of this process; its first is where the staging is mapped.
  LeaderMemory(ControlSegment& segment, MemoryExchange& exchange, DroppableMemory& droppable,
               std::vector<int> devices, int process);
  ~LeaderMemory() override;

  // This process's address of the staging; makes and maps it at its first use.
  Result<std::byte*> staging(const net::Deadline& deadline);
  // The leader's address of memory of this process, or 0 where the leader cannot map it; nothing
  // where it has not been asked yet.
  std::optional<std::uint64_t> known_in_leader(const void* pointer, std::size_t bytes) const;
  // The same; asks.
  Result<std::uint64_t> in_leader(const void* pointer, std::size_t bytes,
                                  const net::Deadline& deadline);
  void block_ends(std::uint64_t number) override;

  // Behind all staging: a rank's factor of PreMulSum.
  std::uint64_t scalar_at(int rank) const {
    return segment_.staging_bytes() * static_cast<std::uint64_t>(segment_.ranks()) +
           kScalarBytes * static_cast<std::uint64_t>(rank);
  }

  // The leader's answers.
  Result<MemoryHandle> answer(MemoryNote& asked, const MemoryHandle& with);

 private:
  bool leads() const { return process_ == 0; }
  std::uint64_t staging_bytes() const { return scalar_at(segment_.ranks()); }  // of all ranks
  Result<std::byte*> make_staging();

  ControlSegment& segment_;
  MemoryExchange& exchange_;
  DroppableMemory& droppable_;
  const std::vector<int> devices_;
  const int process_;
  mutable std::mutex mutex_;
  std::byte* staging_ = nullptr;
  OwnMemory own_staging_;          // the leader's
  ImportedMemory mapped_staging_;  // in other processes than the leader's
  // Of this process: by number and base, where the block begins in the leader; 0: it cannot be.
  std::map<std::pair<std::uint64_t, std::byte*>, std::uint64_t> in_leader_;
  std::multimap<std::uint64_t, ImportedMemory> imported_;  // leader: by address, for others
};

}  // namespace rondo::gpu
