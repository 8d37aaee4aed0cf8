// LaunchTurn: with NCCL_LAUNCH_ORDER_IMPLICIT=1, kernels that wait for other devices run in the
// order of their calls on all devices of a process, across all communicators.
//
// Otherwise two threads with two communicators of the same devices may launch in different orders
// on two devices. If a device has no room for both kernels, that is a deadlock. A thread holds a
// turn while it enqueues one call's kernels on all devices; each kernel's stream waits for the
// newest kernel of another communicator on that device. Calls of one communicator are in order
// anyway (stream_order.h). Guarantees: this order outside of captures; a graph runs after what the
// program launches before its replay. Cost: nothing if not requested; else a mutex a call, an event
// record and a wait a device, and such kernels of two communicators never overlap.
#pragma once

#include <mutex>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

class LaunchTurn {
 public:
  static bool is_wanted();  // by the environment

  // owner: identifies the communicator. taken: false: the turn does nothing.
  LaunchTurn(const void* owner, bool taken);
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;

  bool is_taken() const { return lock_.owns_lock(); }
  // Call before and after the launch on one device, which must be current.
  Status begin(int device, GpuStream stream);
  Status end(int device, GpuStream stream);

 private:
  const void* const owner_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace rondo::gpu
