// LeaderMemory: the memory by which the leader's process does calls for others.
//
// There are two areas, made by the leader when somebody first needs one: staging for collectives
// and slots for messages. They lie on the leader's device, or on the host where not all devices
// reach that. And a rank's own memory (ncclMemAlloc'd or registered) is mapped by the
// leader at its first use, so that the leader's kernels read and write it in place. Others ask over
// a Unix socket; the leader's watch thread answers with serve(), so an answer never depends on what
// the leader's program does. Guarantees: every question ends with its deadline. Cost: a round trip
// between processes per area and per block, once.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "collectives/gpu/control_segment.h"
#include "transport/memory/memory_registry.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

class LeaderMemory final : public MemoryRegistry::Listener {
 public:
  enum Area : std::uint32_t { kStaging = 0, kMessages = 1 };
  static constexpr std::uint32_t kAreas = 2;
  static constexpr std::uint64_t kScalarBytes = 256;

  // sockets: on the leader one for each process (its own empty), elsewhere one to the leader.
  // devices: of this process; its first is where areas are mapped.
  LeaderMemory(ControlSegment& segment, std::vector<int> devices, int process, bool areas_on_host,
               std::vector<net::Socket> sockets);
  ~LeaderMemory() override;

  bool leads() const { return process_ == 0; }
  // This process's address of an area; makes and maps it at its first use.
  Result<std::byte*> area(Area which, const net::Deadline& deadline);
  // By watch threads: maps what others have had made. So an area outlives the leader's process
  // (messages wait there), and nobody needs the leader for it later.
  void map_new_areas();
  // The leader's last act: waits until all have mapped what there is, or have left.
  void wait_until_mapped();
  // The leader's address of memory of this process, or 0 where the leader cannot map it; nothing
  // where it has not been asked yet.
  std::optional<std::uint64_t> known_in_leader(const void* pointer, std::size_t bytes) const;
  // The same; asks.
  Result<std::uint64_t> in_leader(const void* pointer, std::size_t bytes,
                                  const net::Deadline& deadline);
  void block_ends(std::uint64_t number) override;

  // In the staging area, behind all staging: a rank's factor of PreMulSum.
  std::uint64_t scalar_at(int rank) const {
    return segment_.staging_bytes() * static_cast<std::uint64_t>(segment_.ranks()) +
           kScalarBytes * static_cast<std::uint64_t>(rank);
  }
  // Of the messages' area, a rank: what lies on the host is pinned, and so less.
  std::uint64_t message_bytes() const;
  // Device memory that this process holds for the communicator.
  std::uint64_t bytes() const;

  // The leader's side, by its watch thread: sockets to poll (-1: none), and one question answered.
  const std::vector<net::Socket>& sockets() const { return sockets_; }
  void serve(int process);

 private:
  enum Kind : std::uint32_t { kArea = 1, kMap, kUnmap };

  std::uint64_t area_bytes(Area which) const;
  bool is_on_host(Area which) const { return areas_on_host_ && which == kMessages; }
  Result<std::byte*> map_host_area(Area which, Fd file);
  Result<std::byte*> make_area(Area which);
  Result<MemoryHandle> answer(MemoryNote& request, const MemoryHandle& asked);
  // Sends this process's request; the handle in the answer, if any.
  Result<MemoryHandle> ask(Kind kind, const MemoryHandle& handle, const net::Deadline& deadline);

  ControlSegment& segment_;
  const std::vector<int> devices_;
  const int process_;
  const bool areas_on_host_;
  std::vector<net::Socket> sockets_;
  mutable std::mutex mutex_;
  std::byte* areas_[kAreas] = {};
  ImportedMemory mapped_areas_[kAreas];  // what of them lies on the host or in the leader's memory
  Fd host_file_;
  // Of this process: by number and base, where the block begins in the leader; 0: it cannot be.
  std::map<std::pair<std::uint64_t, std::byte*>, std::uint64_t> in_leader_;
  std::multimap<std::uint64_t, ImportedMemory> imported_;  // leader: by address, for others
};

}  // namespace rondo::gpu
