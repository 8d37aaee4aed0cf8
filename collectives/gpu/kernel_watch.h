// What a host can tell of kernels over connections, from the words that they keep in host memory:
// who is in a launch, whom that lacks, who made another call, why a kernel gave up.
//
// Ranks of other processes included, where they share those words. Only looks. Cost: some loads a
// rank and channel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/gpu/channels/device_connections.h"

namespace rondo::gpu {

struct KernelFault {
  int peer = -1;
  CallRecord call;
  std::string text;
};
// Why a kernel of this rank gave up, if one did, after `seconds`.
std::optional<KernelFault> kernel_fault(const DeviceConnections& connections, int rank,
                                        double seconds);

bool is_in_launch(const DeviceConnections& connections, int rank);
// Channel 0 tells which call the newest launch plays, and others may begin before it: whether it is
// in that launch. Not so once its part is over, either.
bool is_newest_named(const DeviceConnections& connections, int rank);
CallRecord newest_launch(const DeviceConnections& connections, int rank);
struct NewestLaunch {
  std::uint64_t number = 0;  // 0: none, or one after the other just now
  CallRecord call;
  std::uint64_t digest = 0;  // of all launches' calls until then
};
NewestLaunch newest_launch_of(const DeviceConnections& connections, int rank);
// While the rank is in a launch: ranks that have not begun it,
std::vector<int> ranks_not_come(const DeviceConnections& connections, int rank);
// and those that have not ended it.
std::vector<int> ranks_not_over(const DeviceConnections& connections, int rank);
// A rank whose newest launch has the same number and is of another call, or follows others than
// this rank's does; -1: none.
int rank_that_differs(const DeviceConnections& connections, int rank);
// Differs whenever any launch has begun or ended.
std::uint64_t kernels_moved(const DeviceConnections& connections);

}  // namespace rondo::gpu
