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
//
// SharedBlocks: buffers that it uses in place.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

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

// SharedBlocks: memory of this process's ranks (ncclMemAlloc'd or registered) that the leader, the
// process of rank 0, has mapped; in the leader, memory of all others that it has mapped. Its
// kernels read and write it in place.
//
// The owner of a block asks the leader to map it (process_meeting.h) and keeps the answer: the
// block's address there. So no process looks up another one's addresses.
//
// A block ends when its rank deregisters or frees it, after its own calls on it. The leader unmaps
// it as soon as the calls that run there at that time have finished; other work, also of this
// communicator, may go on. Memory that CUDA IPC opened is closed once the leader has no unfinished
// work (deferred_free.h); the owner waits for it for at most a second. After a fault a kernel may
// still access a block that has ended: it is unmapped once the leader has no unfinished work.
// Guarantees: every request ends with its deadline; the number of a block is never used again.
// Thread-safe. Cost: a round trip per block, twice; the leader's watch thread maps and unmaps while
// its kernels run.
class SharedBlocks final : public MemoryRegistry::Listener {
 public:
  // Whether calls that ran at some time have finished.
  enum class State { kRun, kOver, kFaulted };
  using Calls = std::function<State()>;

  // device: of this process; the leader's must reach others' blocks. running: returns the calls
  // that run now.
  SharedBlocks(MemoryExchange& exchange, int device, int process, std::function<Calls()> running);
  ~SharedBlocks() override;

  // Address of this process's memory for the leader's GPU; 0 if it has no access or no block holds
  // the memory. deadline: to ask the leader, the first time.
  Result<std::uint64_t> at_leader(const void* pointer, std::size_t bytes,
                                  const std::function<net::Deadline()>& deadline);
  bool block_ends(std::uint64_t number) override;

  // The answer to kMap and kUnmap; nullopt: not yet.
  std::optional<Result<MemoryHandle>> answer(MemoryNote& asked, const MemoryHandle& with);
  // Unmaps blocks that have ended and are not in use any more. True if some are.
  bool unmap_ended();

 private:
  using Key = std::pair<std::uint64_t, std::byte*>;  // number, base
  struct Seen {
    std::uint64_t at = 0;       // start of the block there; 0: no access
    bool by_first_gpu = false;  // and for no other: CUDA IPC opens it for one
  };
  struct Imported {
    ImportedMemory memory;  // of another process
    bool by_ipc;
  };
  // A block of another process that has ended.
  struct Ended {
    std::uint64_t at = 0;
    ImportedMemory memory;  // null: given up
    Calls calls;            // that ran when it ended
    bool is_asked = false;  // its owner waits for the answer
    std::weak_ptr<const bool> open;
    std::chrono::steady_clock::time_point answer_by;
  };
  Result<Seen> ask(const MemoryBlock& block, const net::Deadline& deadline);
  Result<MemoryHandle> map(MemoryNote& asked, const MemoryHandle& with);
  std::optional<Result<MemoryHandle>> unmap(std::uint64_t at);
  bool give_up_unused();  // called with imported_mutex_ held

  MemoryExchange& exchange_;
  const int device_;
  const bool leads_;
  const std::function<Calls()> running_;
  std::mutex mutex_;
  std::map<Key, Seen> seen_;
  std::mutex imported_mutex_;                        // never held while another process is asked
  std::multimap<std::uint64_t, Imported> imported_;  // by address
  std::vector<Ended> ended_;
};

}  // namespace rondo::gpu
