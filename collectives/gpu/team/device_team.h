// SPDX-License-Identifier: Apache-2.0
// DeviceTeam: the ranks of a communicator on one CUDA device of a process.
//
// Ranks that share the device meet on the host: each posts its call, and the last to arrive
// launches for all: one kernel without waits, or, with ranks of other devices and processes
// (process_team.h), this device's part of the call (team_launches.h). Its stream first waits for
// the other ranks' streams; then these wait for the kernel. So no stream ever waits for work that
// is not yet enqueued, even if streams share hardware queues. A rank with a device of its own meets
// nobody. Collectives and messages run in the order of their ranks' calls, on all streams and in
// graph replays (stream_order.h).
//
// A rank calls post() with its group, then launched() until it returns true, then join_streams(). A
// thread with several ranks posts for all of them before it waits for any. Messages from and to
// ranks of other teams wait for no other rank of this one: it would hold back what the peer's peers
// need from here. Their order is only that of the rank's own calls. Thread-safe; the team's mutex
// is held for the launches.
// Cost: an event record and a wait per rank and call on top of the launch; none if all ranks use
// one stream.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/gpu/calls/gpu_engine.h"
#include "collectives/gpu/calls/process_message.h"
#include "collectives/gpu/team/team_context.h"
#include "collectives/gpu/team/team_launches.h"
#include "collectives/planner/device_work.h"

namespace rondo::gpu {

class DeviceTeam {
 public:
  // Enables access to peers' memory, loads all kernels, makes connections. processes: joins this
  // team to the others, if there are any.
  static Result<std::shared_ptr<DeviceTeam>> make(const TeamOptions& options,
                                                  std::shared_ptr<ProcessTeam> processes = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  ProcessTeam* processes() const { return context_.processes.get(); }  // null: all are here

  // By the devices' planner; 0 if it allows nothing. Any thread.
  double predicted_ns(const CallRecord& record) const {
    return gpu::predicted_ns(context_.facts, record);
  }

  const DevicePlanFacts& plan_facts() const { return context_.facts; }
  // Each rank calls it before its first call. The first one's value counts; all are equal.
  void set_tuned(std::shared_ptr<const TunedWays> ways);

  bool has_multicast() const { return context_.facts.multicast; }

  // Posts the calls of one group of `rank`, in order, and launches what they complete. The rank's
  // device must be current, unless all ranks are in this team and no stream is a default stream.
  Status post(int rank, std::span<const Call> calls, Mismatch* mismatch);

  // Whether everything that the rank has posted is launched; waits for it.
  bool launched(int rank, std::chrono::microseconds at_most);
  // The error that ended the team, if any: nothing is launched after it.
  Status failure();
  void fail_all(const Status& why);

  // Makes the streams of the rank's last post() wait for the launches.
  Status join_streams(int rank);

  // Ranks that have not made the call that this rank waits for.
  std::vector<int> missing(int rank);

  // suspend() frees device memory once all ranks of this team have called it; resume() takes it
  // again.
  Status suspend(int rank, const net::Deadline& deadline);
  Status resume(int rank, const net::Deadline& deadline);
  GpuMemoryUse memory(int rank);

  // Ends every wait in kernels over connections, now and later.
  void stop_kernels();
  // Why a kernel of this rank gave up, if one did.
  std::optional<Fault> kernel_fault(int rank) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  DeviceTeam(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes);
  Status post_calls(int rank, std::span<const Call> calls, Lock& lock, Mismatch* mismatch);
  Status post_collective(int rank, const PostedCall& call, Mismatch* mismatch);
  Status launch_outside(int rank, std::span<const ProcessMessage> messages,
                        std::span<const PostedCall> posts, Lock& lock, Mismatch* mismatch);
  bool launches_are_over(double seconds) const;

  TeamContext context_;
  std::mutex mutex_;
  std::condition_variable launched_;
  Status failure_;
  PostedCalls posted_;
  TeamLaunches launches_;
  std::atomic<bool> stopped_{false};  // stop_kernels() was called
};

// The engine of one rank of a team. Forwards to it, at no other cost.
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
  Status join() override { return team_->join_streams(rank_); }
  void fail_all(const Status& why) override { team_->fail_all(why); }
  void end() override { team_->stop_kernels(); }
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
