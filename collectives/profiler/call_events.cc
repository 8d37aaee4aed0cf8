// SPDX-License-Identifier: Apache-2.0
#include "collectives/profiler/call_events.h"

#include <cassert>
#include <utility>

namespace rondo::profiler {

GroupEvent::GroupEvent(std::shared_ptr<Profiler> profiler, int depth, bool captured)
    : profiler_(std::move(profiler)) {
  assert(profiler_ != nullptr && depth > 0);
  if (!profiler_->wants(abi::kForGroupApi)) return;
  handle_ = profiler_->start({.kind = abi::kGroupApi, .captured = captured, .depth = depth});
  profiler_->record(handle_, abi::kGroupStartApiStop);
}

CallEvent::CallEvent(const Profiler& profiler, std::shared_ptr<const GroupEvent> group,
                     const Call& call, bool captured)
    : group_(std::move(group)) {
  assert(group_ != nullptr);
  const bool is_message = is_point_to_point(call);
  if (!profiler.wants(is_message ? abi::kForP2pApi : abi::kForCollApi)) return;
  handle_ = profiler.start({.kind = is_message ? abi::kP2pApi : abi::kCollApi,
                            .parent = group_->handle(),
                            .call = &call,
                            .captured = captured});
  profiler.stop(handle_);
}

void CallEvents::on_begin(std::uint8_t algorithm, std::uint8_t protocol) {
  const Way way = way_of(algorithm, protocol);
  for (const Call& call : std::exchange(next_, {}))
    if (!is_point_to_point(call)) start(call, way);  // messages between fused calls run later
}

void CallEvents::start(const Call& call, const Way& way) {
  if (call.api == nullptr || is_one_sided(call)) return;
  const bool is_message = is_point_to_point(call);
  const std::uint64_t sequence = counts_[static_cast<std::size_t>(call.record.collective)]++;
  if (group_ == nullptr && profiler_->wants(abi::kForGroup))
    group_ = profiler_->start({.kind = abi::kGroup});
  if (!profiler_->wants(is_message ? abi::kForP2p : abi::kForColl)) return;
  void* const started = profiler_->start({.kind = is_message ? abi::kP2p : abi::kColl,
                                          .parent = call.api->handle(),
                                          .group = group_,
                                          .call = &call,
                                          .way = way,
                                          .sequence = sequence});
  if (started != nullptr) open_.push_back(started);
}

void CallEvents::stop() {
  for (void* const event : open_) profiler_->stop(event);
  open_.clear();
  profiler_->stop(std::exchange(group_, nullptr));
}

}  // namespace rondo::profiler
