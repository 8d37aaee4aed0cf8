#include "collectives/gpu/launch/strategies.h"

#include <algorithm>

namespace rondo::gpu {
namespace {

struct Row {
  Strategy strategy;
  Done (*launch)(const DeviceLaunch& call);
};
constexpr Row kRows[] = {
    {Strategy::kConnected, launch_connected}, {Strategy::kMet, launch_met},
    {Strategy::kShared, launch_shared},       {Strategy::kPushed, launch_pushed},
    {Strategy::kMulticast, launch_multicast},
};

}  // namespace

cuda::Meeting DeviceLaunch::meeting() const {
  cuda::Meeting meeting = meetings->meeting(place);
  meeting.control = connections.control(rank());
  meeting.call = record;
  std::copy(firsts.begin(), firsts.end(), meeting.rank);
  return meeting;
}

Done launch_strategy(const DeviceLaunch& call) {
  for (const Row& row : kRows)
    if (row.strategy == call.plan.strategy) return row.launch(call);
  return fail(Status::kInternalError, "no launch on every device is planned for {}",
              name(call.record.collective));
}

}  // namespace rondo::gpu
