// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/team_standing.h"

#include <fmt/core.h>

#include <chrono>

namespace rondo::gpu {

void TeamStanding::join(ProcessHooks* hooks) {
  std::lock_guard lock(mutex_);
  hooks_.push_back(hooks);
}

void TeamStanding::leave(ProcessHooks* hooks) {
  std::lock_guard lock(mutex_);
  if (!hooks->standing().ok()) released_ = true;
  std::erase(hooks_, hooks);
}

Status TeamStanding::check() {
  std::lock_guard lock(mutex_);
  for (ProcessHooks* hooks : hooks_) RONDO_CHECK_OK(hooks->standing());
  return ok_status();
}

net::Deadline TeamStanding::deadline() {
  double seconds = 60;
  {
    std::lock_guard lock(mutex_);
    if (!hooks_.empty()) seconds = hooks_[0]->limit_seconds();
  }
  return net::Deadline::of(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)),
                           [this] { return !check().ok(); });
}

double TeamStanding::device_seconds() {
  std::lock_guard lock(mutex_);
  return hooks_.empty() ? 0 : hooks_[0]->device_seconds();
}

void TeamStanding::blame(Fault fault) {
  std::lock_guard lock(mutex_);
  released_ = true;
  if (!hooks_.empty()) hooks_[0]->raise(std::move(fault));
}

bool TeamStanding::has_ended(int rank) {
  std::lock_guard lock(mutex_);
  return !hooks_.empty() && hooks_[0]->has_ended(rank);
}

std::string TeamStanding::name_of(int rank) {
  std::lock_guard lock(mutex_);
  return hooks_.empty() ? fmt::format("rank {}", rank) : hooks_[0]->name_of(rank);
}

}  // namespace rondo::gpu
