// The ways in which GPUs launch a collective: a file of this folder and a row of strategies.cc
// each, beside the planner's row (collectives/planner/device_strategies.cc).
//
// Knows nothing of streams' order or of ranks' threads: device_team.cc sees to those. Direct
// launches of one device are direct_launches.h, composed calls composed_calls.cc. CTAs of launches
// here wait for those of other devices; where a device has several ranks, for each other: then the
// launch is cooperative. Cost: one launch a device, three where staging is shared; two more where a
// call is tried in place.
#pragma once

#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/device_barriers.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// The part of the current device in a call.
struct DeviceLaunch {
  const GpuApi& api;
  const DeviceConnections& connections;
  const DevicePlan& plan;
  const CallRecord& record;
  std::span<const Buffers> buffers;  // by rank of the communicator
  std::span<const int> here;         // the ranks that live on the device
  GpuStream stream = nullptr;
  const Call* own_call = nullptr;  // of the first of them
  bool told = false;               // hosts of other processes want to know of it
  // What this rank says of its buffers, by rank, where the call is first tried in place.
  const cuda::InPlaceWords::Said* says = nullptr;

  const MulticastMemory* multicast = nullptr;  // if there is any
  bool in_multicast_windows = false;           // every rank's buffers, as own_call says of its own

  // Of devices of this process that meet; else nothing.
  const DeviceBarriers* barriers = nullptr;
  int place = 0;                     // of the device among them
  std::span<const int> firsts = {};  // the first rank of every device, by place
  int most_ctas = 1;                 // the same on every device

  int rank() const { return here.front(); }
  const Buffers& own() const { return buffers[static_cast<std::size_t>(rank())]; }
  // Where they meet: all devices of this process; or of all processes, a rank each.
  cuda::DeviceBarrier barrier() const;
  cuda::DeviceBarrier barrier_of_processes() const;
  int ctas_of_processes() const;  // that meet there: as many as hosts hear of, on every device

  // What only copies is moved as bytes: so many units is an element then.
  bool copies() const { return !reduces(record.collective); }
  std::uint64_t units() const { return copies() ? size_of(record.type) : 1; }
  // Launches CTAs of the plan's threads, for all ranks of the device.
  template <class Args>
  Done launch(int kernel, int ctas, std::size_t shared_bytes, const Args& args) const {
    return launch(kernel, ctas, shared_bytes, &args, sizeof(args));
  }
  Done launch(int kernel, int ctas, std::size_t shared_bytes, const void* args,
              std::size_t bytes) const;
};

Done launch_strategy(const DeviceLaunch& call);
// What goes before, where the call is tried in place.
Done launch_in_place(const DeviceLaunch& call);

// Of a rank, where this one's is `own`.
std::byte* in_window(const std::vector<std::byte*>& windows, const void* own, int self, int rank);
// Whether a switch may work on the call's buffers where they lie.
bool is_in_multicast_windows(const Call& call);

// A way each. All but connected and met: every device has one rank.
Done launch_connected(const DeviceLaunch& call);
Done launch_met(const DeviceLaunch& call);
Done launch_shared(const DeviceLaunch& call);
Done launch_windows(const DeviceLaunch& call);
Done launch_ll_push(const DeviceLaunch& call);
Done launch_multicast(const DeviceLaunch& call);

}  // namespace rondo::gpu
