// SPDX-License-Identifier: Apache-2.0
// DeviceRank: a communicator's rank on a CUDA device: the team that runs its calls, on which the
// ranks agreed when the communicator was created (binding.h), and its windows.
//
// Calls are posted; then the host waits until they are on their streams. Guarantees: that wait ends
// with the communicator's timeout, fault or end; a fault stops kernels that wait. Cost: that of the
// team (device_team.h).
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/failure_detector.h"
#include "collectives/faults/fault.h"
#include "collectives/gpu/team/device_team.h"
#include "transport/cuda/deferred_free.h"

namespace rondo {
class RankState;
namespace profiler {
struct Way;
}
namespace tuner {
class Tuner;
}
}  // namespace rondo

namespace rondo::gpu {

class DeviceComms;
class DeviceWindows;
class HostProxy;

class DeviceRank : public GpuRank {
 public:
  // The rank of a state to which bind_to_device() has given one.
  static DeviceRank& of(const RankState& state);

  explicit DeviceRank(RankState& state);
  ~DeviceRank() override;
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;

  // Only while the communicator is created.
  void set_team(std::shared_ptr<DeviceTeam> team);
  void set_hosted(std::shared_ptr<HostProxy> hosted) { hosted_ = std::move(hosted); }
  // The tuner lives as long as the rank. ways: its preferences; null: none.
  void set_tuning(std::unique_ptr<tuner::Tuner> tuner,
                  const std::shared_ptr<const TunedWays>& ways);
  const DevicePlanFacts& plan_facts() const { return team_->plan_facts(); }
  void join_team();  // if it has other teams
  void set_reach_team(int ranks) { reach_team_ = ranks; }
  int reach_team() const override { return reach_team_; }
  const DeviceTeam& team() const { return *team_; }
  // Null: the host does none of its collectives and messages.
  const std::shared_ptr<HostProxy>& hosted() const { return hosted_; }
  double predicted_ns(const CallRecord& record) const override {
    return team_->predicted_ns(record);
  }
  bool needs_device() const { return team_->needs_device(); }
  GpuMemoryUse memory() const override;
  Status suspend() override;
  Status resume() override;

  EnqueueFlag& enqueue_flag() { return enqueues_; }
  Status post(std::span<const Call> calls);
  // Call once the rank's collectives are on their streams: a wait for a signal must not be enqueued
  // before the kernel of another rank's call.
  Status post_one_sided(std::span<const Call> calls);
  Status wait_until_enqueued();
  // In place of these, if the rank is alone in its communicator: copies the call's input to its
  // output. Only if CUDA refuses the copy are the buffers queried, which names the wrong one.
  Status copy_alone(const Call& call);

  bool adopt_kernel_fault() override;
  bool may_count_on_device() const override { return team_->may_count_on_device(); }

  Result<int> open_window(const Exchange& exchange, void* memory, std::size_t bytes,
                          bool symmetric) override;
  // Sets in which symmetric windows the call's buffers are. given: the program's, also those that
  // this rank does not use.
  void look_for_windows(Call* call, const Buffers& given) const;
  void close_window(int window) override;
  // Sets the address in the peer's window that the call puts to (device_windows.h).
  Status find_window_of(Call* call) const;
  std::size_t window_bytes(int window, int peer) const override;

  DeviceApi* device_api() override;

  void report(int peer, std::span<const std::byte> message) override;
  int gone() const override;
  void close() override;

 private:
  void record(std::span<const Call> calls);      // for the black box and profiler plugins
  profiler::Way way_of(const Call& call) const;  // for a profiler plugin
  Status wait_for_streams();
  void stop();
  net::Deadline deadline();  // the communicator's timeout, while it has not ended
  Status fault_of_post(const Status& posted, const Mismatch& mismatch);
  std::optional<Fault> look_at_missing(FailureDetector& detector);

  RankState& state_;
  EnqueueFlag enqueues_;
  std::shared_ptr<DeviceTeam> team_;
  int place_ = 0;  // on the device of the team
  int reach_team_ = 1;
  bool joined_ = false;  // to the standing of its team and the others
  std::shared_ptr<HostProxy> hosted_;
  std::unique_ptr<tuner::Tuner> tuner_;     // null: no plugin, or nothing to tune
  std::unique_ptr<DeviceWindows> windows_;  // null until there is one,
  std::unique_ptr<DeviceComms> comms_;      // as this; made under mutex_
  std::uint64_t recorded_ = 0;              // number of the newest collective in the black box
  std::uint64_t posted_ = 0;                // calls of post()
  mutable std::mutex mutex_;
  // Executes puts and signals, once there is a window; may be hosted_. Guarded by mutex_.
  std::shared_ptr<HostProxy> window_rank_;
};

}  // namespace rondo::gpu
