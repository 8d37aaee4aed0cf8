// SPDX-License-Identifier: Apache-2.0
// LeaderMemory: the staging memory, on the leader's device, through which the leader's process does
// calls for others.
//
// Other processes request it from the leader (memory_exchange.h). Guarantees: every request ends
// with its deadline. Cost: a round trip between processes, once.
#pragma once

#include <cstdint>
#include <mutex>

#include "collectives/gpu/agree/memory_exchange.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class DroppableMemory;

class LeaderMemory {
 public:
  static constexpr std::uint64_t kScalarBytes = 256;

  // device: of this process; the leader's has the staging.
  LeaderMemory(ControlSegment& segment, MemoryExchange& exchange, DroppableMemory& droppable,
               int device, int process);

  // This process's address of the staging; the first use makes and maps it.
  Result<std::byte*> staging(const net::Deadline& deadline);

  // Offset behind all staging: a rank's factor of PreMulSum.
  std::uint64_t scalar_at(int rank) const {
    return segment_.staging_bytes() * static_cast<std::uint64_t>(segment_.ranks()) +
           kScalarBytes * static_cast<std::uint64_t>(rank);
  }

  // The leader's answer to kStaging.
  Result<MemoryHandle> answer();

 private:
  bool leads() const { return process_ == 0; }
  std::uint64_t staging_bytes() const { return scalar_at(segment_.ranks()); }  // of all ranks
  Result<std::byte*> make_staging();

  ControlSegment& segment_;
  MemoryExchange& exchange_;
  DroppableMemory& droppable_;
  const int device_;
  const int process_;
  std::mutex mutex_;
  std::byte* staging_ = nullptr;
  OwnMemory own_staging_;          // the leader's
  ImportedMemory mapped_staging_;  // in other processes
};

}  // namespace rondo::gpu
