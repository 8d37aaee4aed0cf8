// SPDX-License-Identifier: Apache-2.0
#include "collectives/profiler/api_events.h"

#include <utility>

namespace rondo::profiler {

GroupEvent::GroupEvent(std::shared_ptr<Profiler> profiler, int depth, bool captured)
    : profiler_(std::move(profiler)) {
  if (!profiler_->wants(abi::kForGroupApi)) return;
  handle_ = profiler_->start({.kind = abi::kGroupApi, .captured = captured, .depth = depth});
  profiler_->record(handle_, abi::kGroupStartApiStop);
}

CallEvent::CallEvent(const Profiler& profiler, std::shared_ptr<const GroupEvent> group,
                     const Call& call, bool captured)
    : group_(std::move(group)) {
  const bool is_message = is_point_to_point(call);
  if (!profiler.wants(is_message ? abi::kForP2pApi : abi::kForCollApi)) return;
  handle_ = profiler.start({.kind = is_message ? abi::kP2pApi : abi::kCollApi,
                            .parent = group_->handle(),
                            .call = &call,
                            .captured = captured});
  profiler.stop(handle_);
}

}  // namespace rondo::profiler
