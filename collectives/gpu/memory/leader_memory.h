// SPDX-License-Identifier: Apache-2.0
// LeaderMemory: the staging through which the leader's process does calls for others, in two
// places: on its device, and in pinned host memory.
//
// Other processes request it from the leader (process_meeting.h). Small calls use the host's: only
// a copy engine takes part in a copy to it. A copy within the device needs the compute engine,
// which the device first switches to this process, for each process and copy: 142 us on one H200,
// 9 through the host (bench/results/h200/handoff_copies.json:
// handoff_copies.between_2_within_the_device; handoff_copies.between_2_to_the_host).
//
// Guarantees: every request ends with its deadline. Cost: a round trip between processes, once for
// each place; kHostBytes of pinned memory a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "collectives/gpu/agree/process_meeting.h"
#include "kernels/cuda/shared_args.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class DeviceMemory;

class LeaderMemory {
 public:
  using Place = cuda::StagingPlace;
  static constexpr std::uint64_t kScalarBytes = 256;
  // Of a rank, on the host. A call uses a quarter for its input and one for its output. On one H200
  // a sum of 128 KiB took 52 us by it and 315 without it, of 8 ranks 174 and 1,271
  // (bench/results/h200/roof_0c3f96bb.txt: processes.2 128KiB; roof_b_366d00b2.txt: processes.2
  // 128KiB; roof_0c3f96bb.txt: processes.8 128KiB; roof_b_366d00b2.txt: processes.8 128KiB).
  static constexpr std::uint64_t kHostBytes = 1 << 20;

  // device: of this process; the leader's has the staging.
  LeaderMemory(ControlSegment& segment, MemoryExchange& exchange, DeviceMemory& memory, int device,
               int process);

  cuda::StagingShape shape(Place place) const;
  // This process's address of the staging; the first use makes (on the device) and maps it.
  Result<std::byte*> staging(Place place, const net::Deadline& deadline);

  // Offset behind all staging: a rank's factor of PreMulSum.
  std::uint64_t scalar_at(Place place, int rank) const {
    return shape(place).rank_bytes * static_cast<std::uint64_t>(segment_.ranks()) +
           kScalarBytes * static_cast<std::uint64_t>(rank);
  }

  Status make_on_host();  // the leader's, at init

  // The leader's answer to kStaging.
  Result<MemoryHandle> answer(std::uint32_t place);

 private:
  bool leads() const { return process_ == 0; }
  std::uint64_t bytes(Place place) const { return scalar_at(place, segment_.ranks()); }
  Result<std::byte*> made(Place place);  // the leader's
  void publish(Place place);
  Result<std::byte*> make_on_device();
  Status map_host(Fd file);

  ControlSegment& segment_;
  MemoryExchange& exchange_;
  DeviceMemory& memory_;
  const int device_;
  const int process_;
  std::mutex mutex_;
  std::byte* staging_[cuda::kStagingPlaces] = {};  // this process's addresses; null: not yet made
  OwnMemory on_device_;                            // the leader's
  ImportedMemory mapped_;                          // on the device, in other processes
  Fd file_;                                        // the leader's, of the host's
  std::shared_ptr<std::byte> on_host_;
};

}  // namespace rondo::gpu
