// HostedService: the thread of a HostProxy, which does on the host what its stream asks for: it is
// the one that uses the rank's host engine and links.
//
// Guarantees: a call that fails ends the rank; streams go on then, whatever they wait for; faults
// that other threads find are told to other hosts here. Cost: a thread, which spins for 2,000 looks
// and then naps between calls.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/staging/call_slots.h"
#include "collectives/gpu/staging/pinned_staging.h"

namespace rondo::gpu {

class HostedService {
 public:
  struct Parts {
    CommunicatorState& state;
    CallSlots& slots;
    PinnedStaging& staging;
  };
  explicit HostedService(Parts parts) : parts_(std::move(parts)) {}

  Done start();
  void stop();    // and waits for the end of its thread
  void forget();  // in a forked child: the thread is the parent's
  bool runs() const { return thread_.joinable(); }

 private:
  void serve();
  void run_call(std::uint32_t number);
  Done run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step);
  void fail_call(const Error& error);
  void release();
  void tell_or_leave_to_thread(const Fault& fault);
  void tell_what_is_left();

  const Parts parts_;
  std::atomic<bool> stop_{false};
  std::atomic<std::thread::id> own_thread_{};
  std::mutex mutex_;
  std::optional<Fault> untold_;
  Thread thread_;
};

}  // namespace rondo::gpu
