// SPDX-License-Identifier: Apache-2.0
// Devices share the work of the direct kernels.
//
// Shared: on staging that all of them reach, for calls whose buffers fit there. The kernels copy
// inputs in and outputs out themselves. Reductions of one kind are one launch, and so are up to 64
// copies.
// Windows: on all ranks' buffers, which are at equal offsets of symmetric windows
// (ncclCommWindowRegister). In an all-gather in place, where each rank's input has its own place,
// only device d moves what rank d sends; the same holds for its reduce-scatters: CTAs are assigned
// accordingly (direct.h).
#include <algorithm>
#include <array>
#include <span>

#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {
namespace {

using Slices = DirectLaunches::Slices;

// This rank's buffers; null if they have no part in the call.
Buffers own_sides(const DeviceLaunch& launch, const PlannedCall& call) {
  const int rank = launch.rank();
  const CallSteps steps(call.record, launch.connections.layout().ranks(),
                        {ConnectionLayout::kSharedStaging});
  Buffers own = launch.own(call);
  if (!steps.sends(rank)) own.send = nullptr;
  if (!steps.receives(rank, {-1, 0, call.record.count})) own.receive = nullptr;
  return own;
}

// Collects copies, in the order in which they meet.
class StagedCopies {
 public:
  StagedCopies(const DeviceLaunch& launch, const Slices& slices)
      : launch_(launch), slices_(slices) {
    const DeviceConnections& connections = launch.connections;
    const int ranks = connections.layout().ranks();
    for (int r = 0; r < ranks && ranks <= cuda::kArgumentDevices; ++r) {
      const auto staging = connections.shared_staging(r);
      args_.input[r] = staging.input;
      args_.output[r] = staging.output;
    }
    args_.slice = slices.bytes;
    args_.barrier = launch.barrier();
  }

  Status add(const PlannedCall& call) {
    if (args_.calls == cuda::kMaxStagedCopies) RONDO_CHECK_OK(flush());
    const CallRecord& record = call.record;
    const Segments segments = segments_of(record.collective, launch_.connections.layout().ranks());
    const std::uint64_t bytes = record.count * size_of(record.type);
    const auto shape = DirectLaunches::staged_shape(
        slices_, cuda::kDirectThreads, std::max(segments.sent, segments.received), bytes, 1);
    const Buffers own = own_sides(launch_, call);
    const auto k = static_cast<std::size_t>(args_.calls++);
    args_.bytes[k] = bytes;
    args_.listed[k] = {record, static_cast<std::uint16_t>(shape.ctas),
                       static_cast<std::uint16_t>(shape.block), 0};
    args_.staged[k] = {own.send, own.receive, shape.part};
    widest_ = {std::max(widest_.block, shape.block), std::max(widest_.ctas, shape.ctas), 0};
    return ok_status();
  }
  Status flush() {
    if (args_.calls == 0) return ok_status();
    Status launched = launch_.launch(cuda::kStagedCopyKernel, static_cast<int>(widest_.ctas),
                                     widest_.block, cuda::kBarrierShared, args_);
    args_.calls = 0;
    widest_ = {};
    return launched;
  }

 private:
  const DeviceLaunch& launch_;
  const Slices slices_;
  cuda::StagedCopyArgs args_{};
  DirectLaunches::StagedShape widest_{};
};

}  // namespace

// Peers may have other lists, so no call may depend on its list: each CTA has the same slice of
// staging in every call, and no CTA of another number touches it.
Status launch_shared(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  const ConnectionLayout& layout = connections.layout();
  RONDO_CHECK_OK(connections.lazy().need(ConnectionLayout::kStaging));
  const Slices slices{layout.shared_ctas(), layout.shared_slice(), ConnectionLayout::kSharedStaging,
                      layout.ranks()};
  std::array<Buffers, cuda::kMaxSharingDevices> buffers;
  for (int r = 0; r < layout.ranks(); ++r) {
    const auto staging = connections.shared_staging(r);
    buffers[static_cast<std::size_t>(r)] = {staging.input, staging.output};
  }
  const auto all = std::span(buffers).first(static_cast<std::size_t>(layout.ranks()));
  StagedCopies copies(launch, slices);
  DirectLaunches reductions(slices.ctas, launch.stream);
  reductions.meet(launch.barrier());
  for (const PlannedCall& call : launch.calls) {
    if (call.copies()) {
      RONDO_CHECK_OK(reductions.flush());
      RONDO_CHECK_OK(copies.add(call));
    } else {
      RONDO_CHECK_OK(copies.flush());
      RONDO_CHECK_OK(
          reductions.staged_reduction(call.record, all, own_sides(launch, call), slices));
    }
  }
  RONDO_CHECK_OK(copies.flush());
  return reductions.flush();
}

std::byte* in_window(const std::vector<std::byte*>& windows, const void* own, int self, int rank) {
  return windows[static_cast<std::size_t>(rank)] +
         (static_cast<const std::byte*>(own) - windows[static_cast<std::size_t>(self)]);
}

// Blocks must be whole vectors; the rest of an all-reduce is not a block. By the contract of
// symmetric windows, the result is equal on all ranks.
bool is_in_multicast_windows(const Call& call) {
  constexpr std::uintptr_t kVector = 16;
  const auto is_whole = [](std::uintptr_t n) { return n % kVector == 0; };
  return call.send_windows != nullptr && call.receive_windows != nullptr &&
         call.send_windows->back() != nullptr && call.receive_windows->back() != nullptr &&
         is_whole(reinterpret_cast<std::uintptr_t>(call.send)) &&
         is_whole(reinterpret_cast<std::uintptr_t>(call.receive)) &&
         (call.record.collective == Collective::kAllReduce ||
          is_whole(call.record.count * size_of(call.record.type)));
}

Status launch_windows(const DeviceLaunch& call) {
  DirectLaunches launches(call.barrier_ctas(), call.stream);
  launches.meet(call.barrier());
  const int n = call.connections.layout().ranks(), self = call.rank();
  std::array<Buffers, cuda::kMaxSharingDevices> buffers;
  for (const PlannedCall& planned : call.calls) {
    const Buffers& own = call.own(planned);
    for (int r = 0; r < n; ++r)
      buffers[static_cast<std::size_t>(r)] = {
          in_window(*own.send_windows, own.send, self, r),
          in_window(*own.receive_windows, own.receive, self, r)};
    RONDO_CHECK_OK(
        launches.collective(planned.record, std::span(buffers).first(static_cast<std::size_t>(n))));
  }
  return launches.flush();
}

}  // namespace rondo::gpu
