// FaultState: why a rank's communicator goes on no longer, if so: a fault, abort() or revoke().
//
// The first fault wins and is kept for good: raise() tells the listener (what runs the rank's
// calls), other hosts, and last the peers of this host, whose waits end. A fault that a peer of
// this host raised is adopted at the next look. Guarantees: peers learn of a fault even where
// memory is short; safe from any thread. Cost: is_raised() is one load, adopt_from_peers() one a
// local rank.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/guard.h"
#include "collectives/communicator/current_call.h"
#include "collectives/communicator/membership.h"
#include "collectives/watchdog/fault.h"
#include "kernels/host/host_rank.h"

namespace rondo {

class FaultState {
 public:
  FaultState(const Membership& members, const host::HostRank& host, const CurrentCall& call)
      : members_(members), host_(host), call_(call) {}
  FaultState(const FaultState&) = delete;
  FaultState& operator=(const FaultState&) = delete;

  // abort() and revoke() from other threads.
  enum End : int { kRunning, kAborted, kRevoked };
  End ended() const { return static_cast<End>(ended_.load(std::memory_order_seq_cst)); }
  // False where it has ended so already, or is to be revoked and has ended at all.
  bool end(End how);

  bool is_raised() const { return raised_.load(std::memory_order_acquire); }
  std::optional<Fault> fault() const;
  Error error() const;  // of the fault, which must be there

  // In the call in progress, found by this rank.
  Fault make(StatusCode status, int culprit, std::string text) const;
  // Found beside the calls on the host, by any thread.
  Fault make_beside_calls(StatusCode status, int culprit, std::string text) const;
  // tells_other_hosts: not where this is done once nobody is inside a call (tell_other_hosts()).
  void raise(Fault fault, bool tells_other_hosts = true);
  bool adopt_from_peers();  // true if a peer of this host has raised one
  // Whether a call may begin, or go on; if not, why. One look.
  Status standing();

  // After an executor gave up: what the call returns.
  Status why_it_ended();
  Status adopted();

  // What body throws becomes this rank's fault.
  template <class Body>
  Status or_fault(Body&& body) {
    return guarded("a call", body, [this](Error& error) { fail_call(error); });
  }
  void fail_call(Error& error);

  // While the communicator is made: what else must end with a fault; how other hosts are told.
  void listen(std::function<void(const Fault&)> listener);
  void set_tell_other_hosts(std::function<void(const Fault&)> tell);
  void tell_other_hosts(const Fault& fault) const;
  void wake_peers() const;

 private:
  void publish(const Fault& fault) const;  // to the peers of this host

  const Membership& members_;
  const host::HostRank& host_;
  const CurrentCall& call_;
  std::vector<std::function<void(const Fault&)>> listeners_;
  std::function<void(const Fault&)> tell_other_hosts_;
  std::atomic<int> ended_{kRunning};
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
  std::atomic<bool> raised_{false};
};

}  // namespace rondo
