// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/team_standing.h"

#include <fmt/core.h>

#include "base/seconds.h"
#include "collectives/faults/peer_words.h"
#include "collectives/host/rank_state.h"

namespace rondo::gpu {

void TeamStanding::join(RankState& rank) {
  std::lock_guard lock(mutex_);
  ranks_.push_back(&rank);
}

void TeamStanding::leave(RankState& rank) {
  std::lock_guard lock(mutex_);
  if (!rank.faults.standing().ok()) released_ = true;
  std::erase(ranks_, &rank);
}

Status TeamStanding::check() {
  std::lock_guard lock(mutex_);
  for (RankState* const rank : ranks_) RONDO_CHECK_OK(rank->faults.standing());
  return ok_status();
}

net::Deadline TeamStanding::deadline() {
  double seconds = 60;
  {
    std::lock_guard lock(mutex_);
    if (!ranks_.empty()) seconds = ranks_[0]->timeout_seconds.load(std::memory_order_relaxed);
  }
  return net::Deadline::of(to_nanoseconds(seconds), [this] { return !check().ok(); });
}

double TeamStanding::device_seconds() {
  std::lock_guard lock(mutex_);
  return ranks_.empty() ? 0 : ranks_[0]->options.kernel_seconds;
}

void TeamStanding::blame(Fault fault) {
  std::lock_guard lock(mutex_);
  released_ = true;
  if (ranks_.empty()) return;
  fault.rank = ranks_[0]->members.rank;
  ranks_[0]->faults.raise(std::move(fault));
}

bool TeamStanding::has_ended(int rank) {
  std::lock_guard lock(mutex_);
  if (ranks_.empty()) return false;
  const Membership& members = ranks_[0]->members;
  const int local = members.local_of(rank);
  return local >= 0 && rondo::has_ended(members.process_of(local));
}

void TeamStanding::show(std::uint64_t begun, const std::optional<LongWait>& wait) {
  std::lock_guard lock(mutex_);
  for (const RankState* const rank : ranks_) rank->show_device_wait(begun, wait);
}

std::string TeamStanding::name_of(int rank) {
  std::lock_guard lock(mutex_);
  return ranks_.empty() ? fmt::format("rank {}", rank) : ranks_[0]->members.name_of(rank);
}

}  // namespace rondo::gpu
