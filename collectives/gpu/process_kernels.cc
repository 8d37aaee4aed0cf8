// What the watch thread of a ProcessTeam makes of kernels over connections: who died in a launch,
// who never came to it, who replays another call. It makes no CUDA call.
#include "base/log.h"
#include "collectives/gpu/kernel_watch.h"
#include "collectives/gpu/process_team.h"
#include "collectives/watchdog/fault_texts.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

void ProcessTeam::look_at_kernels() {
  for (const int rank : local_)
    if (!released_) check_launch(rank);
}

void ProcessTeam::check_launch(int rank) {
  if (const auto found = kernel_fault(*connections_, rank, device_seconds()))
    return blame(Status::kTimeout, found->peer, found->text);
  const CallRecord call = newest_launch(*connections_, rank);
  if (const int other = rank_that_differs(*connections_, rank); other >= 0) {
    const CallRecord theirs = newest_launch(*connections_, other);
    return blame(Status::kInvalidUsage, other,
                 theirs == call ? fault_texts::different_replays_before(call, rank, other)
                                : fault_texts::different_replays(rank, call, other, theirs));
  }
  if (!is_in_launch(*connections_, rank)) return;
  const std::vector<int> behind = ranks_not_over(*connections_, rank);
  if (blame_the_dead(behind, rank, to_string(call))) return;
  const std::vector<int> missing = ranks_not_come(*connections_, rank);
  // Kernels keep their own deadlines, since only they know whether they move.
  warn(fault_texts::list_of(missing), to_string(call));
}

}  // namespace rondo::gpu
