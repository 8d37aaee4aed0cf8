// SPDX-License-Identifier: Apache-2.0
// Windows: devices share the work of the direct kernels on all ranks' buffers, which are at equal
// offsets of symmetric windows (ncclCommWindowRegister). In an all-gather in place, where each
// rank's input has its own place, only device d moves what rank d sends; the same holds for its
// reduce-scatters: CTAs are assigned accordingly (direct.h).
#include <array>
#include <span>

#include "collectives/gpu/launch/strategies.h"

namespace rondo::gpu {

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
  std::array<Buffers, cuda::kMaxBarrierDevices> buffers;
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
