// The ways in which GPUs launch a collective: a file of this folder and a row of strategies.cc
// each, beside the planner's row (collectives/planner/device_strategies.cc).
//
// Knows nothing of streams' order or of ranks' threads: device_team.cc sees to those. Direct
// launches of one device are direct_launches.h, composed calls composed_calls.cc. CTAs of launches
// here wait for those of other devices; where a device has several ranks, for each other: then the
// launch is cooperative. All take lists of calls (collectives/gpu/call_run.h). Cost: connected, LL
// push and multicast one launch a device for a list, met, windows and shared one for copies or
// reductions alike (direct_launches.h); two more where a call is tried in place.
#pragma once

#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/device_barriers.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// A collective as all ranks make it.
struct PlannedCall {
  DevicePlan plan;
  CallRecord record;
  std::vector<Buffers> buffers;       // by rank of the communicator
  bool by_driver = false;             // direct copies, where kernels do not reach all buffers
  bool in_multicast_windows = false;  // every rank's buffers

  // What only copies is moved as bytes: an element is that number of units then.
  bool copies() const { return !reduces(record.collective); }
  std::uint64_t units() const { return copies() ? size_of(record.type) : 1; }
  int kernel() const;  // that every device launches
};

// The part of the current device in a list of calls.
struct DeviceLaunch {
  const GpuApi& api;
  const DeviceConnections& connections;
  std::span<const PlannedCall> calls;  // in their order
  std::span<const int> here;           // the ranks that live on the device
  GpuStream stream = nullptr;
  bool told = false;  // hosts of other processes want to know of it
  // What this rank says of its buffers, by rank, where the one call is first tried in place.
  const cuda::InPlaceWords::Answer* says = nullptr;

  const MulticastMemory* multicast = nullptr;  // if there is any

  // Of devices of this process that meet; else nothing.
  const DeviceBarriers* barriers = nullptr;
  int place = 0;                     // of the device among them
  std::span<const int> firsts = {};  // the first rank of every device, by place
  int max_ctas = 1;                  // the same on every device

  const PlannedCall& first() const { return calls.front(); }
  int rank() const { return here.front(); }
  const Buffers& own(const PlannedCall& call) const {
    return call.buffers[static_cast<std::size_t>(rank())];
  }
  // Where they meet: all devices of this process; or of all processes, a rank each.
  cuda::DeviceBarrier barrier(const CallRecord& record) const;
  cuda::DeviceBarrier barrier_of_processes() const;
  int ctas_of_processes() const;  // that meet there: as many as hosts hear of, on every device

  // Launches CTAs of `threads` threads, for all ranks of the device.
  template <class Args>
  Status launch(int kernel, int ctas, unsigned threads, std::size_t shared_bytes,
                const Args& args) const {
    return launch(kernel, ctas, threads, shared_bytes, &args, sizeof(args));
  }
  Status launch(int kernel, int ctas, unsigned threads, std::size_t shared_bytes, const void* args,
                std::size_t bytes) const;
};

Status launch_strategy(const DeviceLaunch& call);
// What goes before, where the call is tried in place.
Status launch_in_place(const DeviceLaunch& call);

// Of a rank, where this one's is `own`.
std::byte* in_window(const std::vector<std::byte*>& windows, const void* own, int self, int rank);
// Whether a switch may work on the call's buffers where they lie.
bool is_in_multicast_windows(const Call& call);

// A way each. All but connected and met: every device has one rank.
Status launch_connected(const DeviceLaunch& call);
Status launch_barrier(const DeviceLaunch& call);
Status launch_shared(const DeviceLaunch& call);
Status launch_windows(const DeviceLaunch& call);
Status launch_ll_push(const DeviceLaunch& call);
Status launch_multicast(const DeviceLaunch& call);

}  // namespace rondo::gpu
