// SPDX-License-Identifier: Apache-2.0
// WindowMemory: how a network addresses a window of a rank on a GPU, to write into it one-sided and
// to read what the rank puts elsewhere.
//
// Pinned memory is host memory to any network. GPU memory needs adapters that reach it (GPUDirect,
// decided as for slots: transport/proxy/gpu_direct.h): by a dmabuf file of its allocation, else by
// its address. Guarantees: `ways` are in the order to try them; files are open as long as this
// object lives; if there is no way, `why_not` has the reason. Cost: some driver calls per window.
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
  // pointer: the program's, of a window that the device reaches; the device must be current.
  static WindowMemory of(void* pointer, std::size_t bytes, int device, const net::Network& network,
                         const topology::NearNics& near);

  std::vector<WindowSide> ways;
  std::string why_not;
  std::vector<Fd> files;  // dmabuf
  // Address that a one-sided put from the window gives in place of the GPU's address.
  std::byte* named = nullptr;
};

}  // namespace rondo::gpu
