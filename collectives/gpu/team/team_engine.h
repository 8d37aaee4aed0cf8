// SPDX-License-Identifier: Apache-2.0
// TeamEngine: the GpuEngine of one rank of a DeviceTeam. Forwards to the team, at no other cost.
#pragma once

#include <memory>

#include "collectives/gpu/calls/gpu_engine.h"
#include "collectives/gpu/team/device_team.h"

namespace rondo::gpu {

class TeamEngine final : public GpuEngine {
 public:
  TeamEngine(std::shared_ptr<DeviceTeam> team, int rank) : team_(std::move(team)), rank_(rank) {}

  double predicted_ns(const CallRecord& record) const override {
    return team_->predicted_ns(record);
  }
  const DevicePlanFacts* plan_facts() const override { return &team_->plan_facts(); }
  void set_tuned(const std::shared_ptr<const TunedWays>& ways) override { team_->set_tuned(ways); }
  bool needs_device() const override { return team_->processes() != nullptr; }
  Status post(std::span<const Call> calls, Mismatch* mismatch) override {
    return team_->post(rank_, calls, mismatch);
  }
  bool is_enqueued(std::chrono::microseconds at_most) override {
    return team_->launched(rank_, at_most);
  }
  std::vector<int> missing() override { return team_->missing(rank_); }
  Status failure() override { return team_->failure(); }
  Status late_failure() override { return team_->late_failure(rank_); }
  Status join() override { return team_->join_streams(rank_); }
  void fail_all(const Status& why) override { team_->fail_all(why); }
  void end(const Fault&) override { team_->stop_kernels(); }
  bool kernel_gave_up(std::optional<Fault>* why) const override {
    *why = team_->kernel_fault(rank_);
    return why->has_value();
  }
  Status suspend(const net::Deadline& deadline) override { return team_->suspend(rank_, deadline); }
  Status resume(const net::Deadline& deadline) override { return team_->resume(rank_, deadline); }
  GpuMemoryUse memory() const override { return team_->memory(rank_); }

 private:
  const std::shared_ptr<DeviceTeam> team_;
  const int rank_;
};

}  // namespace rondo::gpu
