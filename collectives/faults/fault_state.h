// SPDX-License-Identifier: Apache-2.0
// FaultState: why a rank's communicator has stopped, if it has: a fault, abort() or revoke().
//
// The first fault is kept; later ones are ignored. raise() reports it to the listeners (the
// executor of the rank's calls), then to other hosts, and last to the peers of this host, whose
// waits then end. A rank adopts a peer's fault at its next check. Guarantees: peers receive a fault
// even if an allocation fails; safe from any thread. Cost: is_raised() is one load,
// adopt_from_peers() one load per local rank.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/guard.h"
#include "base/types.h"
#include "collectives/context/rank_placement.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/peer_words.h"
#include "kernels/host/host_rank.h"

namespace rondo {

// CurrentCall: the call that a rank is executing, for fault messages and reports to peers.
struct CurrentCall {
  explicit CurrentCall(const host::HostRank& host) : host(host) {}

  const host::HostRank& host;
  CallRecord record;      // kNone: not in a call
  int waiting_parts = 1;  // parts of the call that run concurrently and may each wait

  std::string text() const {
    if (is_message(record)) return to_string(record);
    return fmt::format("call {}, {}", host.sequence, to_string(record));
  }
};

class FaultState {
 public:
  FaultState(const Membership& members, const host::HostRank& host, const CurrentCall& call)
      : members_(members), host_(host), call_(call) {}
  FaultState(const FaultState&) = delete;
  FaultState& operator=(const FaultState&) = delete;

  // abort() and revoke() from other threads.
  enum End : int { kRunning, kAborted, kRevoked };
  End ended() const { return static_cast<End>(ended_.load(std::memory_order_seq_cst)); }
  // False if it has already ended in this way, or, for kRevoked, in any way.
  bool end(End how);

  bool is_raised() const { return raised_.load(std::memory_order_acquire); }
  std::optional<Fault> fault() const;
  Error error() const;  // a fault must be present

  // In the call in progress, found by this rank.
  Fault make(StatusCode status, int culprit, std::string text) const;
  // reports_to_other_hosts: false if the caller uses report_to_other_hosts() later, when no rank is
  // inside a call.
  void raise(Fault fault, bool reports_to_other_hosts = true);
  bool adopt_from_peers();  // true if a peer of this host has raised one
  // Whether a call may begin or continue; if not, the reason. Checks once, does not wait.
  Status standing();

  // What the call returns after an executor gave up.
  Status why_it_ended();
  Status adopted();

  // An exception from body becomes this rank's fault.
  template <class Body>
  Status or_fault(Body&& body) {
    return guarded("a call", body, [this](Error& error) { fail_call(error); });
  }
  void fail_call(Error& error);

  // Setup: what else must end after a fault; how to reach other hosts.
  void listen(std::function<void(const Fault&)> listener);
  void set_report_to_other_hosts(std::function<void(const Fault&)> report);
  void report_to_other_hosts(const Fault& fault) const;
  void wake_peers() const;

 private:
  void publish(const Fault& fault) const;  // to the peers of this host

  const Membership& members_;
  const host::HostRank& host_;
  const CurrentCall& call_;
  std::vector<std::function<void(const Fault&)>> listeners_;
  std::function<void(const Fault&)> report_to_other_hosts_;
  std::atomic<int> ended_{kRunning};
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
  std::atomic<bool> raised_{false};
};

}  // namespace rondo
