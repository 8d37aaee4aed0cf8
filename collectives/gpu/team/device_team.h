// SPDX-License-Identifier: Apache-2.0
// DeviceTeam: the ranks of a communicator on one CUDA device of a process.
//
// Ranks that share the device meet on the host: each posts its call, and the last to arrive
// launches for all: one kernel without waits, or, with ranks of other devices, processes and hosts
// (team_edges.h), this device's part of the call (team_launches.h). Its stream first waits for
// the other ranks' streams; then these wait for the kernel. So no stream ever waits for work that
// is not yet enqueued, even if streams share hardware queues. A rank with a device of its own meets
// nobody. Collectives and messages run in the order of their ranks' calls, on all streams and in
// graph replays (stream_order.h).
//
// For a group of calls a rank calls post(), then is_enqueued() until it returns true, then join().
// A thread with several ranks posts for all of them before it waits for any. Messages from and to
// ranks of other teams wait for no other rank of this one: it would hold back what the peer's peers
// need from here. Their order is only that of the rank's own calls. Guarantees: end() ends every
// wait. Thread-safe; the team's mutex is held for the launches.
// Cost: an event record and a wait per rank and call on top of the launch; none if all ranks use
// one stream.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/gpu/calls/messages.h"
#include "collectives/gpu/team/team_launches.h"
#include "collectives/planner/device_work.h"

namespace rondo::gpu {

class DeviceTeam {
 public:
  // edges: to the other ranks, if there are any.
  static Result<std::shared_ptr<DeviceTeam>> make(const TeamOptions& options,
                                                  std::shared_ptr<TeamEdges> edges = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  TeamEdges* edges() const { return context_.edges.get(); }  // null: all ranks are here
  bool has_multicast() const { return context_.facts.multicast; }
  // Whether the GPUs of two ranks of this host use each other's memory.
  bool reaches(int a, int b) const;
  // Predicted time of the call in nanoseconds, from priors; 0 if nothing runs it. Any thread.
  double predicted_ns(const CallRecord& record) const;
  // Facts by which kernels are planned. Constant from the first call on.
  const DevicePlanFacts& plan_facts() const { return context_.facts; }
  // A tuner plugin's preferences, equal on all ranks. Each rank calls it before its first call; the
  // first one's value counts.
  void set_tuned(const std::shared_ptr<const TunedWays>& ways);
  bool may_count_on_device() const { return context_.may_count_on_device(); }
  // Whether the rank's device must be current even for calls on streams that the program created.
  // (A default stream belongs to the current device.)
  bool needs_device() const { return edges() != nullptr; }

  // place: of the calling rank on the device, everywhere.
  int place_of(int rank) const { return context_.place_of(rank); }
  // Posts the calls of one group, in order.
  Status post(int place, std::span<const Call> calls, Mismatch* mismatch);
  // True if everything posted is on its streams, or never will be: then see failure(). Waits for
  // it.
  bool is_enqueued(int place, std::chrono::microseconds at_most);
  // Ranks of this process that have not made the call that this rank waits for.
  std::vector<int> missing(int place);
  Status failure();  // the error that ended the team
  // Makes the streams of the last post wait for what was enqueued.
  Status join(int place);
  // Nothing more is enqueued, for any rank of the team.
  void fail_all(const Status& why);
  // The communicator has ended: ends all waits on the device. Any thread.
  void end();
  // Whether a kernel of the rank gave up, and why; no reason: it arrives soon from elsewhere.
  bool kernel_gave_up(int place, std::optional<Fault>* why) const;
  // suspend() frees device memory once all ranks of the team have called it, after their calls;
  // resume() takes it again.
  Status suspend(int place, const net::Deadline& deadline);
  Status resume(int place, const net::Deadline& deadline);
  GpuMemoryUse memory(int place) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  DeviceTeam(const TeamOptions& options, std::shared_ptr<TeamEdges> edges);
  int rank_at(int place) const { return context_.here[static_cast<std::size_t>(place)]; }
  bool launches_are_over(double seconds) const;
  bool if_idle(const std::function<bool()>& then);
  Status begin_calls(int place, std::span<const Call> calls);
  Status post_calls(int place, std::span<const Call> calls, Lock& lock, Mismatch* mismatch);

  const std::uint32_t made_in_;  // fork_generation()
  TeamContext context_;
  mutable std::mutex mutex_;
  std::condition_variable launched_;
  Status failure_;           // ended the team: nothing is launched after it
  bool has_graphs_ = false;  // some call was captured
  int suspended_ = 0;        // ranks that have begun ncclCommSuspend and have not resumed
  PostedCalls posted_;
  TeamLaunches launches_;
  std::atomic<bool> stopped_{false};  // end() was called
};

}  // namespace rondo::gpu
