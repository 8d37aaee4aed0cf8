// DeviceWindows: the windows of a communicator of ranks on CUDA devices, as this rank reaches them.
//
// Registering is collective: ranks of one process use each other's addresses; for those of other
// processes of the host the memory is mapped, by a file descriptor of virtual memory (ncclMemAlloc)
// or else a CUDA IPC handle. Guarantees: a rank whose memory is no window fails all of them, by
// name, and every wait ends with RONDO_INIT_TIMEOUT; what cannot be mapped is an error of the puts
// into it, with the reason. Cost: an exchange and a mapping a rank, once a window, and another
// exchange for a symmetric one; the thread and the pinned memory of a HostProxy, which passes
// signals, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
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
  // Where a peer's window begins for streams of this rank.
  Result<std::byte*> address(int window, int peer) const;
  std::size_t bytes(int window, int peer) const { return windows_[window].bytes[peer]; }
  // Where each rank's window begins, of the symmetric one that holds these bytes of this rank; null
  // where none does.
  const std::vector<std::byte*>* symmetric_at(const void* buffer, std::size_t bytes) const;

 private:
  struct Offer;
  struct Window {
    std::vector<std::byte*> at;        // by rank; null: out of reach
    std::vector<std::size_t> bytes;    // by rank
    std::vector<std::string> why_not;  // by rank
    std::vector<ImportedMemory> mapped;
    bool symmetric = false;
  };
  Offer offer_of(void* memory, std::size_t bytes, MemoryHandle* handle, Done* why) const;
  bool is_neighbour(int peer) const;  // in another process of this host
  Result<std::vector<MemoryHandle>> exchange_handles(const std::vector<Offer>& all,
                                                     const MemoryHandle& own,
                                                     const shm::UnixListener& listener) const;
  void map(const Offer& offer, int peer, const MemoryHandle& handle, Window* window) const;

  Result<bool> all_may_touch(Communicator& self, const Window& window) const;

  CommunicatorState& state_;
  std::deque<Window> windows_;
  std::uint64_t asked_ = 0;  // windows so far, those that failed too
};

}  // namespace rondo::gpu
