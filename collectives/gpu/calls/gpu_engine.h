// SPDX-License-Identifier: Apache-2.0
// GpuEngine: executes the calls of one rank on a GPU, by kernels and copies of its process's team
// (team/device_team.h) or through the host (staging/host_proxy.h).
//
// For a group of calls: post(), then is_enqueued() until it returns true, then join(). Guarantees:
// end() ends every wait of an engine. Cost: a virtual call on top of the engine's cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/context/call.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/fault.h"
#include "collectives/planner/device_plan.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

class GpuEngine {
 public:
  virtual ~GpuEngine() = default;

  // Predicted time of the call in nanoseconds, from priors; 0 if this engine does not run it. Any
  // thread.
  virtual double predicted_ns(const CallRecord& record) const = 0;

  // Facts by which this engine's kernels are planned; null: it has no kernels. Constant from the
  // first call on.
  virtual const DevicePlanFacts* plan_facts() const { return nullptr; }
  // A tuner plugin's preferences, equal on all ranks. Only before the first call.
  virtual void set_tuned(const std::shared_ptr<const TunedWays>&) {}

  // Whether the rank's device must be current even for calls on streams that the program created.
  // (A default stream belongs to the current device.)
  virtual bool needs_device() const { return true; }

  // Posts the calls of one group, in order.
  virtual Status post(std::span<const Call> calls, Mismatch* mismatch) = 0;
  // True if everything posted is on its streams, or never will be: then see failure(). Waits for
  // it.
  virtual bool is_enqueued(std::chrono::microseconds /*at_most*/) { return true; }
  // Ranks of this process that have not made the call that this rank waits for.
  virtual std::vector<int> missing() { return {}; }
  // The error that ended the engine.
  virtual Status failure() { return ok_status(); }
  // Makes the streams of the last post wait for what was enqueued.
  virtual Status join() { return ok_status(); }

  // Nothing more is enqueued, for any rank of the process.
  virtual void fail_all(const Status&) {}
  // The communicator has ended: ends all waits on the device. Any thread.
  virtual void end() = 0;
  // Whether a kernel of the rank gave up, and why; no reason: it arrives soon from elsewhere.
  virtual bool kernel_gave_up(std::optional<Fault>* /*why*/) const { return false; }

  // Device memory is freed while the communicator is suspended. All ranks call these, after their
  // calls.
  virtual Status suspend(const net::Deadline&) { return ok_status(); }
  virtual Status resume(const net::Deadline&) { return ok_status(); }
  virtual GpuMemoryUse memory() const = 0;
};

}  // namespace rondo::gpu
