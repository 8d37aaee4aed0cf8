// SPDX-License-Identifier: Apache-2.0
// RemoteRanks: a rank's access to ranks of other hosts. It drives their links while the rank waits,
// turns link errors into faults, and sends faults to other hosts.
//
// If all ranks are on this host there are no links and nothing is done. Guarantees: a rank that
// leaves because of a fault is blamed for that fault, not for the end of its connections; every
// wait for data to leave names the destination rank. Cost: without traffic, the thread yields
// (base/yielder.h), then sleeps on its sockets: 1 ms at a time, up to 10 ms in long waits.
#pragma once

#include <functional>
#include <memory>

#include "base/yielder.h"
#include "collectives/faults/fault_state.h"
#include "transport/net/remote_links.h"

namespace rondo {

class RemoteRanks {
 public:
  RemoteRanks(const Membership& members, host::HostRank& host, const CurrentCall& call,
              FaultState& faults)
      : members_(members), host_(host), call_(call), faults_(faults) {}

  // Called once, if some ranks are on other hosts; from then on FaultState sends its faults here.
  void open(std::unique_ptr<RemoteLinks> links);
  RemoteLinks* links() const { return links_.get(); }

  // Other work that this thread drives while it waits. wakes: signals that this work may be ready,
  // or null. Call before the first wait.
  void drive_beside(std::function<bool()> progress, net::WakeSource* wakes) {
    beside_ = std::move(progress);
    wakes_ = wakes;
  }
  // One turn of a wait: runs this thread's other ranks (fibers) and drives the links. True: there
  // is nothing to do before a rank of this host rings, so the thread may park on its bell.
  bool suspend(const WaitSite& site, bool fresh);
  void begin_wait() { error_since_ns_ = -1; }
  // Raises a fault and returns true if the connection that this wait needs has ended permanently.
  bool check(const WaitSite& site, std::int64_t waited_ns);
  // Ends a call on several hosts: waits until all sent data has left this process.
  Status flush();

  // Sends this rank's own fault to other hosts; call on the thread that drives the links.
  void report(const Fault& fault);

 private:
  bool waits_for_host(const WaitSite& site) const;

  const Membership& members_;
  host::HostRank& host_;
  const CurrentCall& call_;
  FaultState& faults_;
  std::unique_ptr<RemoteLinks> links_;
  std::function<bool()> beside_;
  net::WakeSource* wakes_ = nullptr;
  Yielder yielder_;
  int idle_turns_ = 0;
  std::int64_t error_since_ns_ = -1;  // waited_ns when this wait first saw an error
};

}  // namespace rondo
