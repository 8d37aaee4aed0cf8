// SPDX-License-Identifier: Apache-2.0
// HostedService: executes on the host what a rank's stream requests, on the rank's proxy, whose
// thread alone uses the rank's host engine.
//
// While a call waits for its stream or for peers, the proxy's other tasks continue. Guarantees: a
// call that fails ends the rank; streams then continue, whatever they wait for; faults that other
// threads find are reported to other hosts here. Cost: a load of a word per turn.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "collectives/gpu/staging/call_slots.h"
#include "collectives/gpu/staging/pinned_staging.h"
#include "collectives/host/rank_state.h"
#include "transport/proxy/proxy.h"

namespace rondo::gpu {

class HostedService final : public ProxyTask {
 public:
  struct Parts {
    RankState& state;
    CallSlots& slots;
    PinnedStaging& staging;
    Proxy& proxy;
  };
  explicit HostedService(Parts parts) : parts_(parts) {}

  // From then on, the proxy reports the rank's faults to other ranks by `report`.
  void report_faults(std::function<void(const Fault&)> report);

  bool progress() override;
  bool is_busy() const override { return !parts_.slots.has_ended() && parts_.slots.any_waits(); }
  void finish() override { report_what_is_left(); }

 private:
  void run_call(std::uint32_t number);
  Status run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step);
  void fail_call(const Error& error);
  void release();
  void report_or_leave_to_thread(const Fault& fault);
  void report_what_is_left();

  const Parts parts_;
  std::atomic<std::thread::id> own_thread_{};  // the proxy's
  std::mutex mutex_;
  std::optional<Fault> unsent_;
  std::function<void(const Fault&)> report_;
};

}  // namespace rondo::gpu
