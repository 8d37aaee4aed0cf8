// DeviceWindows: the windows of a communicator of ranks on CUDA devices, as this rank reaches them.
//
// Registering is collective: ranks of one process use each other's addresses; for those of other
// processes of the host the memory is mapped, by a file descriptor of virtual memory (ncclMemAlloc)
// or else a CUDA IPC handle. Guarantees: a rank whose memory is no window fails all of them, by
// name, and every wait ends with RONDO_INIT_TIMEOUT; what cannot be mapped is an error of the puts
// into it, with the reason. Where multicast memory is on, symmetric windows of whole allocations
// alike are bound to an object of their own, if all can; else they work as they do without. Cost:
// an exchange and a mapping a rank, once a window, another exchange for a symmetric one and two
// more to bind it; the thread and the pinned memory of a HostProxy, which passes signals, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "transport/memory/memory_registry.h"

namespace rondo {
class Communicator;
class CommunicatorState;
}  // namespace rondo
namespace rondo::shm {
struct UnixListener;
}

namespace rondo::gpu {

class DeviceWindows {
 public:
  explicit DeviceWindows(CommunicatorState& state) : state_(state) {}
  ~DeviceWindows();
  DeviceWindows(const DeviceWindows&) = delete;
  DeviceWindows& operator=(const DeviceWindows&) = delete;

  // Of the rank's own device; the window's number, the same on all ranks. symmetric: collectives
  // may work on buffers at the same places of all ranks' windows, if all ranks say so and can.
  Result<int> open(Communicator& self, void* memory, std::size_t bytes, bool symmetric);
  // No put into it may be under way from here.
  void close(int window);
  // Where a peer's window begins for streams of this rank; or the network's number of the window
  // (RemotePuts), where the network writes there.
  struct Target {
    std::byte* at = nullptr;
    int by_network = -1;
  };
  Result<Target> place(int window, int peer) const;
  // Bytes of this rank as puts of the network name them; null where it does not reach them.
  const std::byte* name_to_network(const void* memory, std::size_t bytes) const;
  std::size_t bytes(int window, int peer) const { return windows_[window].bytes[peer]; }
  // Where each rank's window begins, of the symmetric one that holds these bytes of this rank, and
  // behind them where all do in multicast memory, or null; null where no window holds the bytes.
  const std::vector<std::byte*>* symmetric_at(const void* buffer, std::size_t bytes) const;

 private:
  struct Offer;
  struct Window {
    std::vector<std::byte*> at;        // by rank; null: out of reach; of a symmetric one, all's
    std::vector<std::size_t> bytes;    // by rank
    std::vector<std::string> why_not;  // by rank
    std::vector<ImportedMemory> mapped;
    bool symmetric = false;
    int by_network = -1;               // RemotePuts' number of it; -1: the network has none of it
    std::vector<bool> written{};       // by rank: the network writes there
    const std::byte* named = nullptr;  // this rank's, to the network; null: nothing leaves from it
    std::unique_ptr<MulticastMemory> multicast{};  // null: it is not bound
  };
  // What all ranks of a window have told and given.
  struct Offers;
  Status meet(Communicator& self, void* memory, std::size_t bytes, bool symmetric, Window* window);
  Offer offer_of(void* memory, std::size_t bytes, MemoryHandle* handle, Status* why) const;
  bool is_neighbour(int peer) const;  // in another process of this host
  Status exchange_handles(const MemoryHandle& own, const shm::UnixListener& listener,
                          Offers* offers) const;
  void map(const Offer& offer, int peer, const MemoryHandle& handle, Window* window) const;
  bool is_by_network() const;  // what may write into windows of other hosts
  Status offer_to_network(void* memory, std::size_t bytes, Offer* mine, Window* window) const;
  Status meet_by_network(const Offers& offers, Window* window) const;
  void withdraw(Window* window);
  net::Deadline deadline() const;

  Result<bool> all_may_touch(Communicator& self, const Window& window) const;
  // NVLS in place: rank 0 makes an object with its offer; all bind to it, or none does.
  std::unique_ptr<MulticastMemory> new_multicast(const MemoryHandle& own,
                                                 MemoryHandle* object) const;
  std::unique_ptr<MulticastMemory> multicast_of_own() const;
  static bool may_bind(const Offers& offers);
  Status bind_all(Communicator& self, const Offers& offers, Window* window) const;
  Result<bool> all_could(Communicator& self, const Status& own) const;

  CommunicatorState& state_;
  std::deque<Window> windows_;
  std::uint64_t asked_ = 0;  // windows so far, those that failed too
};

}  // namespace rondo::gpu
