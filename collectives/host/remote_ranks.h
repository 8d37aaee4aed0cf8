// RemoteRanks: the ranks of other hosts, as a rank reaches them: its links are driven while it
// waits, their errors become faults, and faults are told to them.
//
// Where all ranks are on this host there are no links and nothing happens. Guarantees: a rank that
// leaves because of a fault is blamed for that fault, not for the end of its connections; every
// wait for data to leave names the rank that it is for. Cost: where nothing moves, the thread
// yields, then sleeps on its sockets, a millisecond at a time, ten where it has waited for long.
#pragma once

#include <functional>
#include <memory>

#include "collectives/watchdog/fault_state.h"
#include "transport/net/remote_links.h"

namespace rondo {

class RemoteRanks {
 public:
  RemoteRanks(const Membership& members, host::HostRank& host, const CurrentCall& call,
              FaultState& faults)
      : members_(members), host_(host), call_(call), faults_(faults) {}

  // Where some ranks are on other hosts, once; the state tells its faults from then on.
  void open(std::unique_ptr<RemoteLinks> links);
  RemoteLinks* links() const { return links_.get(); }

  // What else this thread moves while it waits; wakes: what tells that it may, or null. Before the
  // first wait.
  void drive_beside(std::function<bool()> progress, net::WakeSource* wakes) {
    beside_ = std::move(progress);
    wakes_ = wakes;
  }
  // A turn of a wait: of this thread's other ranks (fibers), and of the links.
  void suspend(bool fresh);
  void begin_wait() { error_since_ns_ = -1; }
  // True, and a fault, if the connection that this wait is for has ended for good.
  bool check(const WaitSite& site, std::int64_t waited_ns);
  // The end of a call on several hosts: what was sent has left this process.
  Status flush();

  // Other hosts of a fault of this rank's own; on the thread that drives the links.
  void tell(const Fault& fault);

 private:
  const Membership& members_;
  host::HostRank& host_;
  const CurrentCall& call_;
  FaultState& faults_;
  std::unique_ptr<RemoteLinks> links_;
  std::function<bool()> beside_;
  net::WakeSource* wakes_ = nullptr;
  int idle_turns_ = 0;
  std::int64_t error_since_ns_ = -1;  // waited_ns when this wait first saw one
};

}  // namespace rondo
