// GpuEngine: what does the calls of one rank on a GPU: the team of its process's
// ranks by kernels and copies (team_engine.h), or the host (staging/host_proxy.h).
//
// A group of calls: post(), then is_enqueued() until it says so, then join(). Guarantees: what an
// engine waits for ends with end(). Cost: a virtual call on top of the engine's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/memory_use.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/planner/device_plan.h"
#include "collectives/watchdog/fault.h"
#include "transport/socket/deadline.h"

namespace rondo::gpu {

class GpuEngine {
 public:
  virtual ~GpuEngine() = default;

  // What the call would take, in nanoseconds, by priors; 0 where nothing here runs it. Any thread.
  virtual double predicted_ns(const CallRecord& record) const = 0;

  // What kernels of this engine are planned by; null: it has none. While the communicator is made.
  virtual const DevicePlanFacts* plan_facts() const { return nullptr; }
  // Before the first call: what a tuner plugin prefers, alike on all ranks.
  virtual void set_tuned(const std::shared_ptr<const TunedWays>&) {}

  // Whether the rank's device must be current for calls, also those on streams of the program's own
  // making. (A default stream is one of whatever device is current.)
  virtual bool needs_device() const { return true; }

  // Posts the calls of one group, in order.
  virtual Status post(std::span<const Call> calls, Mismatch* mismatch) = 0;
  // Whether all that was posted is on its streams, or never will be: failure() then. Waits for it.
  virtual bool is_enqueued(std::chrono::microseconds at_most) = 0;
  // Ranks of this process that have not made the call that is waited for.
  virtual std::vector<int> missing() { return {}; }
  // What ended the engine; what failed for this rank after its post() had returned.
  virtual Status failure() { return ok_status(); }
  virtual Status late_failure() { return ok_status(); }
  // The streams of the last post wait for what was enqueued.
  virtual Status join() { return ok_status(); }

  // Nothing more is enqueued, for no rank of the process.
  virtual void fail_all(const Status&) {}
  // The communicator has ended so: all that waits on the device ends; from any thread.
  virtual void end(const Fault& fault) = 0;
  // Whether a kernel of the rank gave up, and why; null: that comes soon from elsewhere.
  virtual bool kernel_gave_up(std::optional<Fault>* why) const = 0;

  // Memory on devices goes while the communicator is suspended; by all ranks, after their calls.
  virtual Status suspend(const net::Deadline&) { return ok_status(); }
  virtual Status resume(const net::Deadline&) { return ok_status(); }
  virtual GpuMemoryUse memory() const = 0;
};

}  // namespace rondo::gpu
