// WindowMemory: how a window of a rank on a GPU is named to a network that writes into it by
// itself, and that may read from it what the rank puts elsewhere.
//
// Pinned memory is the host's, to any network. Memory of the GPU is for adapters that reach it
// (GPUDirect, decided as for slots: transport/proxy/gpu_direct.h): by a dmabuf file of its
// allocation, else by its address. Guarantees: `ways` are to be tried in order; files are open as
// long as this lives; where there is no way, `why_not` says why. Cost: some driver calls a window.
//
//   const WindowMemory named = WindowMemory::of(pointer, bytes, device, network, near);
//   for (const WindowSide& side : named.ways) ... register side.memory ...
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "collectives/host/remote_puts.h"
#include "topology/graph/nearness.h"

namespace rondo::gpu {

struct WindowMemory {
  // pointer: as the program has it, of a window that the device reaches; the device is current.
  static WindowMemory of(void* pointer, std::size_t bytes, int device, const net::Network& network,
                         const topology::NearNics& near);

  std::vector<WindowSide> ways;
  std::string why_not;
  std::vector<Fd> files;  // dmabuf
  // What a put that is to leave from it by itself says in place of the GPU's address.
  std::byte* named = nullptr;
};

}  // namespace rondo::gpu
