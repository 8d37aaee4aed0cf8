// LaunchTurn: with NCCL_LAUNCH_ORDER_IMPLICIT=1 all devices of a process run kernels that wait for
// each other in the order in which their calls were made, whichever communicators these are of.
//
// Else two threads that use two communicators of the same devices may launch them in different
// orders on two of these; where a device has no room for both kernels, this would be a
// deadlock. A turn is held while one call's kernels are enqueued on all devices; each waits on its
// stream for the newest one of another communicator there. Calls of one communicator are in order
// anyway (stream_order.h). Guarantees: as said, outside of captures; a graph is ordered by what the
// program replays before it. Cost: nothing where it is not asked for; else a mutex a call, and an
// event recorded and awaited a device: such kernels of two communicators never overlap.
#pragma once

#include <mutex>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

class LaunchTurn {
 public:
  static bool is_wanted();  // by the environment

  // owner: the communicator's; taken: false, where this is to do nothing.
  LaunchTurn(const void* owner, bool taken);
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;

  bool is_taken() const { return lock_.owns_lock(); }
  // Around the launch on one device, which is current.
  Status begin(int device, GpuStream stream);
  Status end(int device, GpuStream stream);

 private:
  const void* const owner_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace rondo::gpu
