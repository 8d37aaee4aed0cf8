// SPDX-License-Identifier: Apache-2.0
// The strategies by which GPUs launch a collective. Each has a file in this folder and a row in
// strategies.cc, next to the planner's row (collectives/planner/device_strategies.cc). Every value
// of Strategy has a row, also those that are launched otherwise.
//
// They do not handle stream order or the ranks' threads: device_team.cc does. Direct launches of
// one device are in direct_launches.h. CTAs of launches here wait for CTAs of other devices. If a
// device has several ranks, they also wait for each other, and the launch is cooperative. All take
// lists of calls (collectives/gpu/calls/posted_calls.h). Cost: connected, LL push and multicast:
// one launch for a list; windows and shared: one for copies, or for reductions of one kind
// (direct_launches.h).
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_memory.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// Its addresses are those of the rank's device; it has the rank's limits.
struct PostedCall {
  Call call;
  GpuEvent ready = nullptr;  // recorded on its stream before the call (StreamOrder::note())
  GpuCaptureInfo capture;
};
int max_ctas_of(const Call& call);  // kNoCtaLimit if the call has no limit
// True if one of the ranks requests copy engines (NCCL's CTA policy ZERO: cudaMemcpyAsync moves the
// data, and no kernel uses a multiprocessor).
bool by_engines(std::span<const PostedCall> posted);

// A collective of the ranks of a device: as they posted it, and then how it runs.
struct JointCall {
  std::vector<PostedCall> posted;  // by place on the device
  std::vector<bool> here;          // by place: whether the rank has posted it
  int arrived = 0;
  int max_ctas() const;  // minimum of all its ranks

  // Set by plan_as(). The record is that of the ranks, with marks of the plan; that of the plain
  // call if theirs is ordered and runs as such.
  DevicePlan plan = {};
  CallRecord record = {};
  std::vector<Buffers> buffers = {};  // by place
  void plan_as(const DevicePlan& chosen);

  // A collective that only copies moves bytes: an element is then that number of units.
  bool copies() const { return !reduces(record.collective); }
  std::uint64_t units() const { return copies() ? size_of(record.type) : 1; }
  int kernel() const;  // every device launches it; kNoKernel: launched otherwise
};
using JointCalls = std::span<const JointCall* const>;  // in order
inline constexpr int kNoKernel = -1;

// The current device's part in a list of calls.
struct DeviceLaunch {
  const DeviceConnections& connections;
  JointCalls calls;
  std::span<const int> here;  // ranks on the device
  GpuStream stream = nullptr;
  const MulticastMemory* multicast = nullptr;  // null: none
  bool counts = true;                          // false: not a call of the program

  const JointCall& first() const { return *calls.front(); }
  int rank() const { return here.front(); }
  int ranks() const { return connections.layout().ranks(); }  // of the communicator
  const Buffers& own(const JointCall& call) const { return call.buffers.front(); }
  cuda::DeviceBarrier barrier() const;  // of all devices, with one rank each
  int barrier_ctas() const;             // that meet there: <= channels; equal on every device

  // Launches CTAs of `threads` threads, for all ranks of the device.
  template <class Args>
  Status launch(int kernel, int ctas, unsigned threads, std::size_t shared_bytes,
                const Args& args) const {
    return launch(kernel, ctas, threads, shared_bytes, &args, sizeof(args));
  }
  Status launch(int kernel, int ctas, unsigned threads, std::size_t shared_bytes, const void* args,
                std::size_t bytes) const;
};

// Which calls one launch may do together with a further one.
enum class Fusion {
  kNone,         // the further call has a launch of its own
  kApart,        // if they touch no memory of one rank that the other writes
  kApartFromAll  // the same for memory of any rank
};
struct LaunchRow {
  Strategy strategy;
  int (*kernel)(const JointCall& call);  // null: none
  // calls: of the launch so far. stations: maximum number of ranks on a device. Null: kNone.
  Fusion (*fuses)(JointCalls calls, const JointCall& next, int stations);
  Status (*launch)(const DeviceLaunch& call);  // null: launched otherwise
};
const LaunchRow& launch_row(Strategy strategy);

Status launch_strategy(const DeviceLaunch& call);

// Whether the memory for the call's lines is clear (connected_launches.cc). If not, the call has to
// be the first one of its launch, after clear_lines().
bool finds_lines_clear(const DeviceConnections* connections, const JointCall& call);
Status clear_lines(const DeviceLaunch& launch, bool captures);

// On the current device: loads `kernels`, and each of `reductions` for every operation and type.
// Call it before they are needed: CUDA loads kernels lazily, and a first launch that has to load
// its kernel may wait for running kernels that wait for this launch.
Status load_kernels(std::vector<int> kernels,
                    std::initializer_list<int (*)(DataType type, RedOp op)> reductions);

// Address in the window of `rank`, where this rank's address is `own`.
std::byte* in_window(const std::vector<std::byte*>& windows, const void* own, int self, int rank);
// Whether a switch can work on the call's buffers in place.
bool is_in_multicast_windows(const Call& call);
// Whether copy engines can: all ranks know where each writes (shared_launches.cc).
bool is_in_engine_windows(const Call& call);
bool is_in_place_for_engines(const Call& call);

// One per strategy. All but connected need one rank per device.
Status launch_connected(const DeviceLaunch& call);
Status launch_shared(const DeviceLaunch& call);
Status launch_windows(const DeviceLaunch& call);
Status launch_engines(const DeviceLaunch& call);
Status launch_ll_push(const DeviceLaunch& call);
Status launch_multicast(const DeviceLaunch& call);

}  // namespace rondo::gpu
