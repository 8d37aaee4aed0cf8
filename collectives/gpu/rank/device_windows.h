// SPDX-License-Identifier: Apache-2.0
// DeviceWindows: the windows of a communicator whose ranks are on CUDA devices, as this rank
// accesses them.
//
// Registration is collective. Ranks of one process use each other's addresses; memory of other
// processes of the host is mapped, by a file descriptor of virtual memory (ncclMemAlloc) or else a
// CUDA IPC handle. Guarantees: if one rank's memory cannot be a window, registration fails on all
// ranks with that rank's number; every wait ends with RONDO_INIT_TIMEOUT; puts into memory that
// cannot be mapped fail with the reason. If multicast memory is on, symmetric windows at equal
// offsets of equal allocations are bound to a multicast object, if all ranks can; else they work
// without it. Cost: per window an exchange and a mapping per rank, one more exchange if it is
// symmetric, two more to bind it; once, the thread and pinned memory of a HostProxy, which passes
// signals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/staging/host_proxy.h"
#include "collectives/gpu/team/device_team.h"
#include "transport/memory/memory_registry.h"

namespace rondo {
class RankState;
}  // namespace rondo
namespace rondo::shm {
struct UnixListener;
}

namespace rondo::gpu {

class DeviceWindows {
 public:
  // hosted: null if the host does none of the rank's collectives and messages.
  DeviceWindows(RankState& state, std::shared_ptr<const DeviceTeam> team,
                std::shared_ptr<HostProxy> hosted)
      : state_(state), team_(std::move(team)), hosted_(std::move(hosted)) {}
  ~DeviceWindows();
  DeviceWindows(const DeviceWindows&) = delete;
  DeviceWindows& operator=(const DeviceWindows&) = delete;

  // Collective. Memory of the rank's own device. Returns the window's number, equal on all ranks.
  // symmetric: collectives may use buffers at equal offsets of all windows, if all ranks set it and
  // can.
  Result<int> open(const Exchange& exchange, void* memory, std::size_t bytes, bool symmetric);
  // No put of this rank into the window may be under way.
  void close(int window);
  // Start of a peer's window for streams of this rank; or, if the network writes there, the
  // network's number of the window (RemotePuts).
  struct Target {
    std::byte* at = nullptr;
    int by_network = -1;
  };
  Result<Target> place(int window, int peer) const;
  // Address by which the network's puts name these bytes of this rank; null: it does not reach
  // them.
  const std::byte* name_to_network(const void* memory, std::size_t bytes) const;
  std::size_t bytes(int window, int peer) const { return windows_[window].bytes[peer]; }
  // Starts of all ranks' windows, of the symmetric window that holds these bytes of this rank,
  // followed by its start in multicast memory or null. Null if no window holds the bytes.
  const std::vector<std::byte*>* symmetric_at(const void* buffer, std::size_t bytes) const;

  bool has_multicast() const { return team_->has_multicast(); }
  // For NCCL's device API (device_comms.h). asked_symmetric(): by all ranks.
  bool is_open(int window) const { return !windows_[window].at.empty(); }
  bool asked_symmetric(int window) const { return windows_[window].asked_symmetric; }
  // A rank's window as mapped here (null: out of reach), in the allocation that holds it; by_file:
  // of virtual memory that can be exported.
  struct Held {
    std::byte* at = nullptr;
    std::uint64_t offset = 0, allocated = 0;  // bytes
    bool by_file = false;
  };
  Held held(int window, int peer) const;
  const std::string& why_not(int window, int peer) const { return windows_[window].why_not[peer]; }
  // Its start in multicast memory; null: not bound.
  const std::byte* multicast_at(int window) const {
    return windows_[window].multicast == nullptr ? nullptr : windows_[window].at.back();
  }

 private:
  struct Offer;
  struct Window {
    std::vector<std::byte*> at;  // [rank]; null: out of reach; a symmetric one's last: multicast
    std::vector<std::size_t> bytes;    // by rank
    std::vector<std::string> why_not;  // by rank
    std::vector<Held> held;            // by rank; without addresses
    std::vector<ImportedMemory> mapped;
    bool symmetric = false, asked_symmetric = false;
    int by_network = -1;               // RemotePuts' number; -1: the network does not use it
    std::vector<bool> written{};       // by rank: the network writes there
    const std::byte* named = nullptr;  // this rank's, for the network; null: no put leaves from it
    std::unique_ptr<MulticastMemory> multicast{};  // null: not bound
  };
  // Data and handles that the ranks of a window have exchanged.
  struct Offers;
  Status meet(const Exchange& exchange, void* memory, std::size_t bytes, bool symmetric,
              Window* window);
  Offer offer_of(void* memory, std::size_t bytes, MemoryHandle* handle, Status* why) const;
  bool is_neighbour(int peer) const;  // in another process of this host
  Status exchange_handles(const MemoryHandle& own, const shm::UnixListener& listener,
                          Offers* offers) const;
  void map(const Offer& offer, int peer, const MemoryHandle& handle, Window* window) const;
  bool is_by_network() const;  // whether the network may write into windows of other hosts
  Status offer_to_network(void* memory, std::size_t bytes, Offer* mine, Window* window) const;
  Status meet_by_network(const Offers& offers, Window* window) const;
  void withdraw(Window* window);
  net::Deadline deadline() const;

  Result<bool> all_may_touch(const Exchange& exchange, const Window& window) const;
  // NVLS in place: rank 0 sends a multicast object with its offer; all ranks bind to it, or none.
  std::unique_ptr<MulticastMemory> new_multicast(const MemoryHandle& own,
                                                 MemoryHandle* object) const;
  std::unique_ptr<MulticastMemory> multicast_of_own() const;
  static bool may_bind(const Offers& offers);
  Status bind_all(const Exchange& exchange, const Offers& offers, Window* window) const;
  static Result<bool> all_could(const Exchange& exchange, const Status& own);

  RankState& state_;
  const std::shared_ptr<const DeviceTeam> team_;
  const std::shared_ptr<HostProxy> hosted_;
  std::deque<Window> windows_;
  std::uint64_t asked_ = 0;  // windows so far, failed ones included
};

}  // namespace rondo::gpu
